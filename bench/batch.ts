// A batch as it travels: a workload with its tokens and the result of its forward pass, in files that peers read.
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { seededRandom } from "../src/training/order.ts";
import { float32Text } from "./number-text.ts";
import { type Workload, type WorkloadName, writeWorkload } from "./workload.ts";

const VOCABULARY = 151_936;

/** Token ids of each sample: one more than positions, since the target of a position is the token behind it. */
export function makeTokens(name: WorkloadName): Int32Array[] {
  const [samples, length] = name.split("x").map(Number) as [number, number];
  const random = seededRandom(11);
  // Small ids are the frequent ones.
  const token = () => Math.floor(10 * (VOCABULARY / 10) ** random());
  return Array.from({ length: samples }, () => Int32Array.from({ length: length + 1 }, token));
}

/** The file of the forward pass's result within the folder of a workload. */
export const OUTPUT = "output.json";
const TOKENS = "tokens.i32";

/** Writes a workload with its tokens and the result of its forward pass. */
export async function writeBatch(
  parent: string,
  workload: Workload,
  tokens: readonly Int32Array[],
): Promise<void> {
  await writeWorkload(parent, workload);
  const folder = join(parent, workload.name);
  await using file = await open(join(folder, TOKENS), "w");
  for (const row of tokens) await file.write(row);
  await using output = await open(join(folder, OUTPUT), "w");
  for (const [sample, row] of workload.logprobs.entries()) {
    const data = Array.from(row, float32Text).join(",");
    const before = sample === 0 ? '{"loss_fn_outputs":[' : ",";
    await output.write(`${before}{"tensors":{"logprobs":{"data":[${data}],"dtype":"float32"}}}`);
  }
  await output.write("]}");
}

/** Reads a file of numbers as one row for each sample. */
async function readRows<Row extends Float32Array | Int32Array>(
  file: string,
  samples: number,
  View: new (buffer: ArrayBufferLike, offset: number, length: number) => Row,
): Promise<Row[]> {
  const { buffer, byteOffset, byteLength } = await readFile(file);
  const bytes = byteLength / samples;
  return Array.from(
    { length: samples },
    (_, sample) => new View(buffer, byteOffset + sample * bytes, bytes / 4),
  );
}

/** Reads what `writeBatch` wrote, without the result. */
export async function readBatch(name: WorkloadName): Promise<{ workload: Workload; tokens: Int32Array[] }> {
  const samples = Number(name.split("x")[0]);
  const rows = (array: string) => readRows(join(name, `${array}.f32`), samples, Float32Array);
  const advantages = await readRows(join(name, "advantages.f32"), 1, Float32Array);
  return {
    workload: {
      name,
      weights: await rows("weights"),
      logprobs: [],
      old: await rows("old"),
      reference: await rows("reference"),
      advantages: advantages[0]!,
    },
    tokens: await readRows(join(name, TOKENS), samples, Int32Array),
  };
}
