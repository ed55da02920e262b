// Times texts of numbers, beside JSON.stringify and JSON.parse: `tsx bench/wire.ts`. Answers are compared first.
import { cpus } from "node:os";
import { seededRandom } from "../../src/training/order.ts";
import { LOGPROBS_IN_OUTPUT, readResult } from "../../src/wire/result.ts";
import { TextBuilder, type TextRow } from "../../src/wire/text.ts";

const SHAPES = [
  [64, 512],
  [256, 2048],
  [512, 8192],
] as const;
const RUNS = 9;
const PART_BYTES = 64 * 1024;

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

async function time(work: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run <= RUNS; run++) {
    const start = performance.now();
    await work();
    if (run > 0) times.push(performance.now() - start);
  }
  return median(times);
}

/** How long the event loop was held at most, in milliseconds. */
async function longestHold(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = performance.now();
  let open = true;
  const look = () => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (open) setImmediate(look);
  };
  setImmediate(look);
  await work();
  open = false;
  return Math.max(longest, performance.now() - last);
}

function same(name: string, got: ArrayLike<number>, expected: ArrayLike<number>): void {
  for (let i = 0; i < expected.length; i++) {
    if (got[i] !== expected[i]) throw new Error(`${name}: ${got[i]} is not ${expected[i]} at ${i}`);
  }
}

const rowText = (rows: readonly TextRow[]) => {
  const text = new TextBuilder();
  for (const [index, row] of rows.entries()) {
    text.text(index === 0 ? '[{"data":' : '},{"data":');
    text.row(row);
  }
  text.text("}]");
  return text;
};

const line = (cells: readonly unknown[]) => console.log(`| ${cells.join(" | ")} |`);

console.log(`${cpus()[0]?.model ?? "unknown CPU"}, Node ${process.version}; medians of ${RUNS} runs\n`);
line(["work", "samples x tokens", "ms", "ns a value", "JSON, ms", "times", "event loop held, ms"]);
line(Array(7).fill("---"));
for (const [samples, length] of SHAPES) {
  const random = seededRandom(7);
  const shape = `${samples} x ${length}`;
  const trained = (position: number) => position >= length / 4;
  const rows = Array.from({ length: samples }, () =>
    Float32Array.from({ length }, (_, position) => (trained(position) ? (random() - 0.5) * 0.01 : 0)),
  );
  const report = async (name: string, ours: () => Promise<unknown>, theirs: () => unknown) => {
    const ms = await time(ours);
    const json = await time(theirs);
    const held = await longestHold(ours);
    const each = (ms * 1e6) / (samples * length);
    line([
      name,
      shape,
      ms.toFixed(2),
      each.toFixed(2),
      json.toFixed(1),
      (json / ms).toFixed(1),
      held.toFixed(1),
    ]);
  };

  const write = async (values: readonly TextRow["values"][], rule: TextRow["rule"]) => {
    const given = values.map((row, sample): TextRow => ({ values: row, rule, path: "rows", sample }));
    return rowText(given).write();
  };
  const parsed = async (values: readonly TextRow["values"][], rule: TextRow["rule"]) =>
    (
      JSON.parse(Buffer.concat((await write(values, rule)).chunks).toString()) as { data: number[] }[]
    ).flatMap(({ data }) => data);
  const plain = rows.map((row) => Array.from(row));
  const stringify = (values: readonly unknown[]) => () => Buffer.from(JSON.stringify(values));

  same(
    "float32",
    Float32Array.from(await parsed(rows, "number")),
    rows.flatMap((row) => [...row]),
  );
  await report("write float32", async () => (await write(rows, "number")).release(), stringify(plain));
  const halves = rows.map((row) => Uint16Array.from(new Uint32Array(row.buffer), (bits) => bits >>> 16));
  await report("write bfloat16", async () => (await write(halves, "number")).release(), stringify(plain));
  const ids = rows.map(() => Int32Array.from({ length }, () => Math.floor(random() * 150_000)));
  same(
    "ids",
    await parsed(ids, "id"),
    ids.flatMap((row) => [...row]),
  );
  const plainIds = ids.map((row) => Array.from(row));
  await report("write ids", async () => (await write(ids, "id")).release(), stringify(plainIds));

  const logprobs = rows.map((row) => row.map((value) => value * 1000));
  const outputs = logprobs.map((row) => ({
    tensors: { logprobs: { data: Array.from(row), dtype: "float32" } },
  }));
  const text = Buffer.from(JSON.stringify({ loss: 1, loss_fn_outputs: outputs }));
  const layout = {
    rowLengths: new Uint32Array(samples).fill(length),
    runCounts: new Uint32Array(samples).fill(1),
    runs: Uint32Array.from({ length: 2 * samples }, (_, i) => (i % 2 === 0 ? length / 4 : (length * 3) / 4)),
  };
  const output = new Float32Array((samples * length * 3) / 4);
  const parts: Buffer[] = [];
  for (let at = 0; at < text.length; at += PART_BYTES) parts.push(text.subarray(at, at + PART_BYTES));
  async function* arriving() {
    for (const part of parts) {
      await new Promise(setImmediate);
      yield part;
    }
  }
  const read = () => readResult(arriving(), { path: LOGPROBS_IN_OUTPUT, layout, output, packed: true });
  await read();
  same(
    "logprobs",
    output,
    logprobs.flatMap((row) => [...row.subarray(length / 4)]),
  );
  await report("read logprobs", read, () => {
    const { loss_fn_outputs } = JSON.parse(text.toString()) as { loss_fn_outputs: typeof outputs };
    return loss_fn_outputs.map((entry) => Float32Array.from(entry.tensors.logprobs.data));
  });
}
