// What is measured on the wire: what happens to a batch on its way, with those who do it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createBatch } from "../../src/engine/batch.ts";
import { toFloat32 } from "../../src/engine/bfloat16.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { makeTokens, OUTPUT, writeBatch } from "../batch.ts";
import { batchOptions, CASES } from "../cases.ts";
import { toBfloat16 } from "../number-text.ts";
import type { Peer } from "../peer.ts";
import { makeWorkload, type WorkloadName } from "../workload.ts";
import {
  type Contestant,
  here,
  JAVASCRIPT,
  ORJSON,
  OURS,
  PYTHON,
  parsed,
  type StageName,
  there,
} from "./contestants.ts";
import { layoutOf, partsOf, read, write } from "./ours.ts";

export interface Stage {
  readonly name: StageName;
  readonly workload: WorkloadName;
  /** Numbers that are more than a placeholder. */
  readonly values: number;
  /** Throws unless the answer is right. */
  check(who: string, answer: ArrayLike<number>): void;
  readonly contestants: readonly Contestant[];
}

const flat = (rows: readonly ArrayLike<number>[]): number[] => rows.flatMap((row) => Array.from(row));

/** Throws unless all numbers are the ones expected, once they are read as their type. */
const checkBy =
  (expected: ArrayLike<number>, as: (value: number) => number) =>
  (who: string, answer: ArrayLike<number>) => {
    if (answer.length !== expected.length) {
      throw new Error(`${who}: expected ${expected.length} values, got ${answer.length}`);
    }
    for (let i = 0; i < expected.length; i++) {
      const value = as(answer[i]!);
      if (value !== expected[i]) throw new Error(`${who}: expected ${expected[i]} at ${i}, got ${value}`);
    }
  };

/** Writing of rows; `plain` are the same numbers, as JavaScript's JSON and Python take them. */
function writing(
  { name, workload, values }: Pick<Stage, "name" | "workload" | "values">,
  rows: Parameters<typeof write>[0],
  plain: readonly ArrayLike<number>[],
  python: readonly ((stage: StageName) => Contestant)[],
): Stage {
  const rule = name === "ids" ? "id" : "number";
  const lists = plain.map((row) => ({ data: Array.from(row) }));
  const stringify = () => Buffer.from(JSON.stringify(lists));
  const ours = here(
    OURS,
    async () => (await write(rows, rule)).release(),
    async () => parsed(Buffer.concat((await write(rows, rule)).chunks)),
  );
  const javascript = here(JAVASCRIPT, stringify, async () => parsed(stringify()));
  const as = { float32: Math.fround, bfloat16: toBfloat16, ids: Number, logprobs: Math.fround }[name];
  return {
    name,
    workload,
    values,
    check: checkBy(flat(plain), as),
    contestants: [ours, javascript, ...python.map((make) => make(name))],
  };
}

interface LossOutputs {
  readonly loss_fn_outputs: readonly {
    readonly tensors: { readonly logprobs: { readonly data: number[] } };
  }[];
}

function reading(
  name: WorkloadName,
  text: Buffer,
  logprobs: readonly Float32Array[],
  python: readonly ((stage: StageName) => Contestant)[],
): Stage {
  const length = logprobs[0]!.length;
  const layout = layoutOf(logprobs.length, length);
  const output = new Float32Array((logprobs.length * length * 3) / 4);
  const parts = partsOf(text);
  const ours = here(
    OURS,
    () => read(parts, layout, output),
    async () => {
      await read(parts, layout, output);
      return output;
    },
  );
  const parse = () => {
    const { loss_fn_outputs } = JSON.parse(text.toString("latin1")) as LossOutputs;
    return loss_fn_outputs.map(({ tensors }) => Float32Array.from(tensors.logprobs.data));
  };
  // Whoever has no packed log-probabilities gives those of prompts too.
  const trained = (rows: readonly Float32Array[]) => flat(rows.map((row) => row.subarray(length / 4)));
  const packed = (contestant: Contestant): Contestant => ({
    ...contestant,
    answer: async () => {
      const all = Float32Array.from(await contestant.answer());
      return trained(logprobs.map((_, sample) => all.subarray(sample * length, (sample + 1) * length)));
    },
  });
  const javascript = here(JAVASCRIPT, parse, async () => trained(parse()));
  return {
    name: "logprobs",
    workload: name,
    values: output.length,
    check: checkBy(trained(logprobs), Number),
    contestants: [ours, javascript, ...python.map((make) => packed(make("logprobs")))],
  };
}

/** The gradients of GRPO in both types. */
export async function gradientsOf(workload: ReturnType<typeof makeWorkload>) {
  using engine = await createEngine({ device: "cpu" });
  const batch = await createBatch(batchOptions(CASES.grpo, workload));
  const loss = CASES.grpo.define();
  const { gradients: float32 } = await engine.run(loss, batch, { dtype: "float32" });
  const { gradients: bfloat16 } = await engine.run(loss, batch, { dtype: "bfloat16" });
  return { values: batch.trainedTokens, float32: [...float32], bfloat16: [...bfloat16] };
}

/** The stages of a workload; its files are written for the peer, if there is one. */
export async function stagesOf(name: WorkloadName, folder: string, peer: Peer | undefined): Promise<Stage[]> {
  const workload = makeWorkload(name);
  const tokens = makeTokens(name);
  await writeBatch(folder, workload, tokens);
  const { values, float32, bfloat16 } = await gradientsOf(workload);
  const widened = bfloat16.map((row) => toFloat32(row));
  const bytes = (rows: readonly Float32Array[]) =>
    Buffer.concat(rows.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength)));
  writeFileSync(join(folder, name, "float32.f32"), bytes(float32));
  writeFileSync(join(folder, name, "bfloat16.f32"), bytes(widened));
  if (peer !== undefined) await peer.ask(`load ${name}`);
  const python = peer
    ? [PYTHON, ORJSON].map((library) => (stage: StageName) => there(library, peer, stage))
    : [];
  const ids = tokens.map((row) => row.subarray(1));
  const all = workload.logprobs.reduce((sum, { length }) => sum + length, 0);
  return [
    writing({ name: "float32", workload: name, values }, float32, float32, python),
    writing({ name: "bfloat16", workload: name, values }, bfloat16, widened, python),
    writing({ name: "ids", workload: name, values: all }, ids, ids, python),
    reading(name, readFileSync(join(folder, name, OUTPUT)), workload.logprobs, python),
  ];
}
