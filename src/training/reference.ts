// Log-probabilities of a frozen reference: taken once over a data set, kept on disk, used again.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Sample } from "../client/sample.ts";
import type { Session } from "../client/session.ts";
import { InputError } from "../errors.ts";
import { checkWhole } from "../losses/options.ts";
import { checkNames } from "../names.ts";
import { computeLogprobs } from "./custom-loss.ts";
import { writeWhole } from "./files.ts";

export interface ReferenceCache {
  /** Folder for one file per data set; made if missing. */
  readonly folder: string;
  /** Name of the base model. */
  readonly model: string;
  /** The checkpoint that the session was started from; left out for the base model itself. */
  readonly checkpoint?: string | undefined;
}

export interface ReferenceOptions {
  /** Samples that are scored in one call. Default 64. */
  readonly referenceBatchSize?: number | undefined;
  /** Keeps the rows on disk and takes them from there: for the same model, checkpoint and samples. Default: nowhere. */
  readonly cache?: ReferenceCache | undefined;
  /**
   * Takes the rows from the cache or not at all: for a run that is resumed, whose session is the reference no more. Default
   * false.
   */
  readonly onlyCached?: boolean | undefined;
  /** Called after each slice, for a progress line, and once where all come from the cache. In samples. */
  readonly onProgress?: ((progress: ReferenceProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ReferenceProgress {
  readonly done: number;
  readonly total: number;
  /** Target positions of the samples that are done. */
  readonly tokens: number;
  readonly isCached: boolean;
}

const FORMAT = "tokengrad-logprobs-1";

/** What the rows depend on: model, checkpoint, and of each sample its tokens and which of them count. */
function keyOf({ model, checkpoint }: ReferenceCache, samples: readonly Sample[]): string {
  const hash = createHash("sha256").update(JSON.stringify([FORMAT, model, checkpoint ?? null]));
  for (const { tokens, targets, weights } of samples) {
    const counts = Array.from(weights, (weight) => (weight > 0 ? 1 : 0));
    hash.update(`\n${Array.from(tokens, String)};${Array.from(targets, String)};${counts}`);
  }
  return hash.digest("hex");
}

const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest();

/** The rows of a file; undefined if there is none or it is damaged. */
async function readCached(path: string, samples: readonly Sample[]): Promise<Float32Array[] | undefined> {
  let file: Buffer;
  try {
    file = await readFile(path);
  } catch {
    return undefined;
  }
  const sum = file.subarray(0, 32);
  const bytes = Uint8Array.from(file.subarray(32));
  const lengths = samples.map(({ weights }) => weights.length);
  if (bytes.length !== 4 * lengths.reduce((a, b) => a + b, 0) || !digest(bytes).equals(sum)) return undefined;
  const values = new Float32Array(bytes.buffer);
  let start = 0;
  return lengths.map((length) => {
    start += length;
    return values.slice(start - length, start);
  });
}

/** The sum of the rows, then the rows one behind the other. */
function fileOf(rows: readonly Float32Array[]): Buffer {
  const bytes = Buffer.concat(rows.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength)));
  return Buffer.concat([digest(bytes), bytes]);
}

/**
 * The log-probabilities that a session gives to samples now, before it is trained: rows for the input `reference`, one per
 * sample. Scores a slice at a time, so that a data set of any size goes through; with `cache` only what is not known yet.
 *
 * @throws {InputError} for a bad option, or with `onlyCached` if the rows are not known; {TokengradError} of the client, if a call fails or is stopped.
 * @example
 * const reference = await referenceLogprobs(session, pairs.samples, { cache: { folder, model, checkpoint } });
 * const set = pairs.with({ reference });
 */
export async function referenceLogprobs(
  session: Session,
  samples: readonly Sample[],
  options: ReferenceOptions = {},
): Promise<Float32Array[]> {
  checkNames("referenceLogprobs", options, [
    "referenceBatchSize",
    "cache",
    "onlyCached",
    "onProgress",
    "signal",
  ]);
  const { referenceBatchSize = 64, cache, onlyCached = false, onProgress, signal } = options;
  checkWhole("referenceLogprobs.referenceBatchSize", referenceBatchSize, 1);
  const total = samples.length;
  let path: string | undefined;
  if (cache !== undefined) {
    checkNames("cache", cache, ["folder", "model", "checkpoint"]);
    path = join(cache.folder, `${keyOf(cache, samples)}.logprobs`);
    const rows = await readCached(path, samples);
    if (rows !== undefined) {
      const tokens = rows.reduce((sum, row) => sum + row.length, 0);
      onProgress?.({ done: total, total, tokens, isCached: true });
      return rows;
    }
  }
  if (onlyCached) {
    throw new InputError(
      "cache",
      `expected the rows of these samples, found none in ${cache?.folder ?? "no folder"}`,
    );
  }
  const rows: Float32Array[] = [];
  let tokens = 0;
  for (let start = 0; start < total; start += referenceBatchSize) {
    const slice = samples.slice(start, start + referenceBatchSize);
    for (const row of await computeLogprobs(session, slice, { signal })) {
      rows.push(row);
      tokens += row.length;
    }
    onProgress?.({ done: rows.length, total, tokens, isCached: false });
  }
  if (path !== undefined) await writeWhole(path, fileOf(rows));
  return rows;
}
