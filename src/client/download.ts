// Streams one file from a storage address to disk: goes on where it was cut off, and is whole or not there.

import { createWriteStream } from "node:fs";
import { mkdir, rename, stat } from "node:fs/promises";
import { basename, join, win32 } from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { TokengradError } from "../errors.ts";
import { ApiError } from "./api-errors.ts";
import type { Call } from "./call.ts";
import type { Sender } from "./sender.ts";
import type { Reply } from "./transport.ts";

export interface RemoteFile {
  readonly name: string;
  readonly bytes: number;
  readonly url: string;
}

export interface DownloadProgress {
  /** Name of the file. */
  readonly file: string;
  /** Bytes of it that are on disk, and of all of it. */
  readonly bytes: number;
  readonly totalBytes: number;
}

/** A file cannot be taken as it is offered. Code `ERR_DOWNLOAD`. */
export class DownloadError extends TokengradError {
  constructor(file: string, problem: string, options?: { cause?: unknown }) {
    super("ERR_DOWNLOAD", `download of ${JSON.stringify(file)}: ${problem}`, options);
  }
}

const PROGRESS_MS = 100;
const EXPIRED = 403;

/** Downloads into `folder` and gives the path. `again` gives the file with a new address where its own has expired. */
export async function downloadFile(
  sender: Sender,
  call: Call,
  folder: string,
  file: RemoteFile,
  again: () => Promise<RemoteFile>,
  onProgress: ((progress: DownloadProgress) => void) | undefined,
): Promise<string> {
  const { name, bytes: totalBytes } = file;
  const plain =
    name !== "" && name !== "." && name !== ".." && basename(name) === name && win32.basename(name) === name;
  if (!plain || name.includes("\0")) throw new DownloadError(name, "expected a plain file name");
  await mkdir(folder, { recursive: true });
  const path = join(folder, name);
  if ((await sizeOf(path)) === totalBytes) {
    onProgress?.({ file: name, bytes: totalBytes, totalBytes });
    return path;
  }
  const part = `${path}.part`;
  const report = throttled((bytes) => onProgress?.({ file: name, bytes, totalBytes }));
  let url = file.url;
  for (let failures = 0; (await sizeOf(part)) < totalBytes; ) {
    const have = await sizeOf(part);
    try {
      await sender.downloadFrom(url, have, call, (reply) => append(reply, part, have, report));
    } catch (error) {
      call.check();
      if (!(error instanceof TokengradError)) {
        throw new DownloadError(name, (error as Error).message, { cause: error });
      }
      // What has come counts: a transfer that was cut off after some of it goes on from there.
      failures = (await sizeOf(part)) > have ? 1 : failures + 1;
      const expired = error instanceof ApiError && error.status === EXPIRED && failures === 1;
      if (expired) url = (await again()).url;
      else if (!sender.repeats(error, failures)) throw error;
      await call.pause(sender.failed(error, `download of ${name}`, call, failures));
      continue;
    }
    // The whole answer has come: what is missing now is nowhere.
    break;
  }
  const got = await sizeOf(part);
  if (got !== totalBytes) throw new DownloadError(name, `expected ${totalBytes} bytes, got ${got} (${part})`);
  await rename(part, path);
  onProgress?.({ file: name, bytes: totalBytes, totalBytes });
  return path;
}

/** Writes the answer behind the `have` bytes that are there. */
async function append(
  reply: Reply,
  part: string,
  have: number,
  report: (bytes: number) => void,
): Promise<void> {
  // A storage that knows no ranges begins at the beginning.
  const onward = reply.statusCode === 206 && have > 0;
  let bytes = onward ? have : 0;
  const count = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      report(bytes);
      done(null, chunk);
    },
  });
  await pipeline(reply.body, count, createWriteStream(part, { flags: onward ? "a" : "w" }));
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}

function throttled(report: (bytes: number) => void): (bytes: number) => void {
  let last = -Infinity;
  return (bytes) => {
    if (performance.now() - last < PROGRESS_MS) return;
    last = performance.now();
    report(bytes);
  };
}
