// The local trainer: a small model behind the HTTP API of the hosted one, in this process.
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadTrainer } from "./binding.ts";
import { type LocalTrainerOptions, settings } from "./options.ts";
import { createServer } from "./server.ts";
import { Service } from "./service.ts";

export { COMMON_FAULTS, type Fault, type FaultPlan, type FaultRequest, randomFaults } from "./faults.ts";
export type { LocalTrainerOptions, ModelOptions } from "./options.ts";

/** Where this machine reaches a server that listens on all its addresses. */
const REACHED_AT: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

export interface LocalTrainer {
  /** Base URL on this machine, such as `http://127.0.0.1:40123`; with or without `/v1` behind it. */
  readonly url: string;
  readonly apiKey: string;
  /** Name of the base model to create resources for. */
  readonly modelName: string;
  /** Stops listening and all sessions; resolves when what runs has ended. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Starts a trainer that really scores, trains and samples a small transformer on the CPU. It always trains all weights:
 * LoRA settings are accepted and given back. Log-probabilities of sampled tokens are those of the model itself, before
 * temperature, top-k and top-p: what a forward pass with the synced weights gives.
 *
 * @throws {InputError} for a bad option, {LoadError} if the addon does not load.
 */
export async function startLocalTrainer(options: LocalTrainerOptions = {}): Promise<LocalTrainer> {
  const set = settings(options);
  const trainer = loadTrainer();
  trainer.setThreads(set.threads ?? trainer.availableCpus);
  // Refuses sizes that do not fit together, before anything is started.
  trainer.parameters(set.model);
  const apiKey = set.apiKey ?? `local-${randomBytes(24).toString("base64url")}`;
  const folder = set.dataFolder ?? (await mkdtemp(join(tmpdir(), "tokengrad-")));
  await mkdir(folder, { recursive: true });
  const service = new Service(trainer, set.modelName, set.model, folder);
  await service.checkpoints.open();
  const server = createServer(service, set, apiKey, set.faults);
  const end = async () => {
    await server.close();
    await service.close();
    if (set.dataFolder === undefined) await rm(folder, { recursive: true, force: true });
  };
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= end();
    return closing;
  };
  try {
    await server.listen({ host: set.host, port: set.port });
  } catch (error) {
    await close();
    throw error;
  }
  const { port } = server.server.address() as AddressInfo;
  const reached = REACHED_AT[set.host] ?? set.host;
  const host = reached.includes(":") ? `[${reached}]` : reached;
  return { url: `http://${host}:${port}`, apiKey, modelName: set.modelName, close };
}
