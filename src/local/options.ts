// The options of the local trainer: defaults, then types and ranges.
import { describe, InputError } from "../errors.ts";
import { checkNames } from "../names.ts";
import type { NativeConfig } from "./binding.ts";
import type { FaultPlan } from "./faults.ts";

/** Sizes of the model. Small by default: 0.8 million weights that read bytes. */
export interface ModelOptions extends NativeConfig {
  /** The token that ends a completion. */
  readonly endOfText: number;
}

export interface LocalTrainerOptions {
  /**
   * Sizes of the base model, whose weights are random from the seed. Defaults: `layers` 4, `width` 128 (a multiple of
   * twice the heads), `heads` 2, `context` 256 tokens, `vocabulary` 257 (the bytes, and 256 for the end of a text),
   * `seed` 0, `precision` "float32", `endOfText` the vocabulary's last token.
   */
  readonly model?: { readonly [Name in keyof ModelOptions]?: ModelOptions[Name] | undefined } | undefined;
  /** Name under which the base model is offered. Default "local/tiny". */
  readonly modelName?: string | undefined;
  /** Address to listen on. Default "127.0.0.1": nobody but this machine. */
  readonly host?: string | undefined;
  /** Port to listen on. Default 0: any that is free. */
  readonly port?: number | undefined;
  /** Key that every request must bear. Default: a random one. */
  readonly apiKey?: string | undefined;
  /** Folder for checkpoints, made if missing. Default: a temporary one that `close()` removes. */
  readonly dataFolder?: string | undefined;
  /**
   * Threads of libtorch. Default: the CPUs that this process may use, by affinity and control groups. Results are
   * bit-identical for equal numbers only.
   */
  readonly threads?: number | undefined;
  /** Largest request body, in bytes. Default 256 MiB. */
  readonly bodyLimitBytes?: number | undefined;
  /** Results larger than this go through the storage, as with the service; 0 for all. Default 524,288. @unit bytes */
  readonly resultPayloadBytes?: number | undefined;
  /** Lets requests fail on demand; see `randomFaults`. */
  readonly faults?: FaultPlan | undefined;
  /** How long a poll waits for an unfinished operation, in milliseconds, before it is answered. Default 250. */
  readonly pollHoldMs?: number | undefined;
}

const OPTIONS = [
  "model",
  "modelName",
  "host",
  "port",
  "apiKey",
  "dataFolder",
  "threads",
  "bodyLimitBytes",
  "pollHoldMs",
  "resultPayloadBytes",
  "faults",
] as const satisfies readonly (keyof LocalTrainerOptions)[];

const MODEL_OPTIONS = [
  "layers",
  "width",
  "heads",
  "context",
  "vocabulary",
  "seed",
  "precision",
  "endOfText",
] as const satisfies readonly (keyof ModelOptions)[];

export interface Settings {
  readonly model: ModelOptions;
  readonly modelName: string;
  readonly host: string;
  readonly port: number;
  readonly apiKey: string | undefined;
  readonly dataFolder: string | undefined;
  readonly threads: number | undefined;
  readonly bodyLimitBytes: number;
  readonly pollHoldMs: number;
  readonly resultPayloadBytes: number;
  readonly faults: FaultPlan | undefined;
}

/**
 * Options with their defaults. The trainer itself checks the model's sizes against each other.
 *
 * @throws {InputError} naming the option.
 */
export function settings(options: LocalTrainerOptions): Settings {
  checkNames("options", options, OPTIONS);
  checkNames("model", options.model ?? {}, MODEL_OPTIONS);
  const { layers = 4, width = 128, heads = 2, context = 256, vocabulary = 257 } = options.model ?? {};
  const { seed = 0n, precision = "float32", endOfText = vocabulary - 1 } = options.model ?? {};
  const sizes = { layers, width, heads, context, vocabulary };
  for (const [name, size] of Object.entries(sizes)) whole(`model.${name}`, size, 1, 2 ** 31 - 1);
  whole("model.endOfText", endOfText, 0, vocabulary - 1);
  const { port = 0, threads, bodyLimitBytes = 256 * 2 ** 20, pollHoldMs = 250 } = options;
  const { resultPayloadBytes = 524_288, faults } = options;
  whole("port", port, 0, 65_535);
  if (threads !== undefined) whole("threads", threads, 1, 1024);
  whole("bodyLimitBytes", bodyLimitBytes, 1, 2 ** 29);
  whole("pollHoldMs", pollHoldMs, 0, 60_000);
  whole("resultPayloadBytes", resultPayloadBytes, 0, 2 ** 29);
  if (faults !== undefined && typeof faults !== "function") {
    throw new InputError("faults", `expected a function, got ${describe(faults)}`);
  }
  if (options.apiKey !== undefined && !/^[\x21-\x7e]+$/.test(options.apiKey)) {
    throw new InputError("apiKey", "expected visible ASCII characters");
  }
  return {
    model: { ...sizes, seed: BigInt.asUintN(64, BigInt(seed)), precision, endOfText },
    modelName: options.modelName ?? "local/tiny",
    host: options.host ?? "127.0.0.1",
    port,
    apiKey: options.apiKey,
    dataFolder: options.dataFolder,
    threads,
    bodyLimitBytes,
    pollHoldMs,
    resultPayloadBytes,
    faults,
  };
}

function whole(path: string, value: number, low: number, high: number): void {
  if (Number.isInteger(value) && value >= low && value <= high) return;
  throw new InputError(path, `expected a whole number from ${low} to ${high}, got ${describe(value)}`);
}
