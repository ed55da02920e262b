// What the examples share: where they run, their data, and how they end.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, createEngine } from "tokengrad";

/** Tokens as the local trainer's model reads them: bytes. For another model put its tokenizer here. */
export const encode = (text: string): number[] => [...Buffer.from(text, "utf8")];
export const decode = (tokens: Iterable<number | bigint>): string =>
  Buffer.from(Array.from(tokens, Number).filter((token) => token < 256)).toString("utf8");

/** A prompt with two answers, in tokens. */
export interface Pair {
  readonly prompt: number[];
  readonly chosen: number[];
  readonly rejected: number[];
}

/** Reads pairs from JSONL with the texts `prompt`, `chosen` and `rejected`; every fifth is held out. */
export async function readPairs(file = join(import.meta.dirname, "data/preferences.jsonl")) {
  const lines = (await readFile(file, "utf8")).split("\n").filter((line) => line.trim() !== "");
  const pairs = lines.map((line): Pair => {
    const { prompt, chosen, rejected } = JSON.parse(line);
    return { prompt: encode(prompt), chosen: encode(chosen), rejected: encode(rejected) };
  });
  return {
    train: pairs.filter((_, index) => index % 5 !== 4),
    heldOut: pairs.filter((_, index) => index % 5 === 4),
  };
}

/** Waits until a resource or a session is what it has to be. */
async function until(wanted: string, status: () => Promise<string>): Promise<void> {
  for (;;) {
    const found = await status();
    if (found === wanted) return;
    if (["ERROR", "STOPPED", "STOPPING", "FAILED"].includes(found))
      throw new Error(`expected to become ${wanted}, became ${found}`);
    await sleep(2000);
  }
}

/**
 * An engine here and a session there: on the trainer that TOGETHER_BASE_URL and TOGETHER_API_KEY name, of the base model
 * BASE_MODEL. It starts from the untrained model, from the weights of a checkpoint, or goes on where a run ended.
 */
export async function open(start: { weightsOf?: string | undefined; resume?: string | undefined }) {
  const baseModel = process.env.BASE_MODEL ?? "local/tiny";
  const client = new Client();
  const engine = await createEngine();
  const { id } = await client.modelResources.start({ baseModel });
  const close = async () => {
    engine.dispose();
    await client.modelResources.stop(id, { force: true });
    await client.close();
  };
  try {
    await until("READY", async () => (await client.modelResources.get(id)).status);
    const checkpoint = start.resume ?? start.weightsOf;
    const session = await client.sessions.start({
      modelResourcesId: id,
      ...(checkpoint && { resumeFromCheckpointId: checkpoint, loadOptimizer: start.resume !== undefined }),
    });
    await until("RUNNING", async () => (await session.info()).status);
    return { baseModel, engine, session, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The log-probability of each sample's response, of rows of its tokens; what is not trained is 0. */
export const sums = (rows: readonly Float32Array[]): number[] =>
  rows.map((row) => row.reduce((a, b) => a + b, 0));

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
