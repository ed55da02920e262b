// A local trainer and a client of it, and what their tests share.

import { onTestFinished } from "vitest";
import { Client, type ClientOptions } from "../../src/client/client.ts";
import type { Sample } from "../../src/client/sample.ts";
import type { Session } from "../../src/client/session.ts";
import { type LocalTrainerOptions, startLocalTrainer } from "../../src/local/index.ts";
import { seededRandom } from "../helpers.ts";

export const MODEL = { layers: 1, width: 16, heads: 2, context: 64 } as const;

export async function trainerWith(options: LocalTrainerOptions = {}) {
  const trainer = await startLocalTrainer({ model: MODEL, threads: 1, ...options });
  onTestFinished(() => trainer.close());
  return trainer;
}

export function clientOf(
  { url, apiKey }: { url: string; apiKey: string },
  options: ClientOptions = {},
): Client {
  const client = new Client({ apiKey, baseURL: url, pollIntervalMs: 20, retryDelayMs: 10, ...options });
  onTestFinished(() => client.close());
  return client;
}

export async function sessionOf(client: Client): Promise<Session> {
  const { id } = await client.modelResources.start({ baseModel: "local/tiny" });
  return client.sessions.start({ modelResourcesId: id });
}

/** Samples of random bytes; the first third of each is prompt. */
export function randomSamples(count: number, length: number, seed = 1): Sample[] {
  const random = seededRandom(seed);
  const row = () => Array.from({ length }, () => Math.floor(random() * 256));
  return Array.from({ length: count }, () => ({
    tokens: row(),
    targets: row(),
    weights: Array.from({ length }, (_, t) => (t < length / 3 ? 0 : 1)),
  }));
}

/** The session's weights: a score of fixed samples tells them apart to the last bit. */
export async function fingerprint(session: Session): Promise<Float32Array[]> {
  return (await session.forward(randomSamples(8, 40, 99))).logprobs;
}
