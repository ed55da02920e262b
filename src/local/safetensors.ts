// The safetensors file format: named tensors behind a JSON header, written atomically, read with suspicion.
import { randomUUID } from "node:crypto";
import { type FileHandle, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { TokengradError } from "../errors.ts";

type TensorDtype = "F32" | "F64";

export interface Tensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
  /** Little-endian numbers, row-major. */
  readonly bytes: Uint8Array;
}

interface TensorFile {
  readonly tensors: readonly Tensor[];
  readonly metadata: Readonly<Record<string, string>>;
}

const SIZES: Readonly<Record<TensorDtype, number>> = { F32: 4, F64: 8 };
const MAX_HEADER_BYTES = 100_000_000;

/** A file that does not hold what its format promises. Code `ERR_CHECKPOINT`. */
export class CheckpointError extends TokengradError {
  constructor(path: string, problem: string, options?: { cause?: unknown }) {
    super("ERR_CHECKPOINT", `checkpoint ${path}: ${problem}`, options);
  }
}

/** Writes a file that is either whole or not there: to a temporary name, flushed to disk, then renamed. */
export async function writeTensors(path: string, { tensors, metadata }: TensorFile): Promise<void> {
  const header: Record<string, unknown> = { __metadata__: metadata };
  let offset = 0;
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  // The data begins at a multiple of 8, which spaces after the header bring about.
  const prefix = Buffer.alloc(8 + Math.ceil(text.length / 8) * 8, " ");
  prefix.writeBigUInt64LE(BigInt(prefix.length - 8));
  text.copy(prefix, 8);

  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    await withFile(temporary, "wx", async (file) => {
      await file.writeFile(prefix);
      for (const { bytes } of tensors) await file.writeFile(bytes);
      await file.sync();
    });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  // So that the new name, too, outlives a loss of power.
  await withFile(dirname(path), "r", (folder) => folder.sync());
}

/**
 * Reads a file that `writeTensors` or another program wrote.
 *
 * @throws {CheckpointError} if it is cut short, overlong or not of the format.
 */
export async function readTensors(path: string): Promise<TensorFile> {
  const file = await readFile(path);
  const length = headerLength(file, file.length, path);
  const fail = (problem: string) => new CheckpointError(path, problem);
  const data = file.subarray(8 + length);
  const header = parseHeader(file.subarray(8, 8 + length), path);
  const tensors: Tensor[] = [];
  const { __metadata__: _, ...entries } = header;
  for (const [name, entry] of Object.entries(entries)) {
    const place = tensorPlace(entry);
    if (place === undefined) throw fail(`expected dtype, shape and offsets of the tensor ${name}`);
    const { dtype, shape, begin, end } = place;
    tensors.push({ name, dtype, shape, bytes: data.subarray(begin, end) });
  }
  const total = tensors.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const promised = Math.max(0, ...Object.values(entries).map((entry) => tensorPlace(entry)!.end));
  if (total !== promised || promised !== data.length) {
    throw fail(`expected ${promised} bytes of tensors, got ${data.length}`);
  }
  return { tensors, metadata: metadataOf(header, path) };
}

/**
 * Reads what a file says of itself, without its tensors.
 *
 * @throws {CheckpointError} if its header is not of the format.
 */
export async function readMetadata(path: string): Promise<Readonly<Record<string, string>>> {
  return withFile(path, "r", async (file) => {
    const { size } = await file.stat();
    const start = await read(file, 0, Math.min(8, size));
    const header = await read(file, 8, headerLength(start, size, path));
    return metadataOf(parseHeader(header, path), path);
  });
}

async function read(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(length), position });
  return buffer.subarray(0, bytesRead);
}

/** Bytes of the header behind the 8 that hold its length. `size` is that of the file. */
function headerLength(start: Buffer, size: number, path: string): number {
  const length = start.length >= 8 ? start.readBigUInt64LE() : 0n;
  if (length < 2n || length > BigInt(Math.min(MAX_HEADER_BYTES, size - 8))) {
    throw new CheckpointError(path, "expected a safetensors header");
  }
  return Number(length);
}

function parseHeader(text: Buffer, path: string): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(text.toString("utf8"));
  } catch (cause) {
    throw new CheckpointError(path, "expected a header in JSON", { cause });
  }
  if (!isRecord(header)) throw new CheckpointError(path, "expected a header that is an object");
  return header;
}

function metadataOf(header: Record<string, unknown>, path: string): Record<string, string> {
  const { __metadata__: metadata = {} } = header;
  if (!isRecord(metadata) || Object.values(metadata).some((value) => typeof value !== "string")) {
    throw new CheckpointError(path, "expected metadata of strings");
  }
  return metadata as Record<string, string>;
}

function tensorPlace(
  entry: unknown,
): { dtype: TensorDtype; shape: number[]; begin: number; end: number } | undefined {
  if (!isRecord(entry) || !isSizes(entry.shape) || !isSizes(entry.data_offsets)) return undefined;
  const dtype = entry.dtype as TensorDtype;
  if (typeof dtype !== "string" || !Object.hasOwn(SIZES, dtype) || entry.data_offsets.length !== 2) {
    return undefined;
  }
  const [begin, end] = entry.data_offsets as [number, number];
  const bytes = entry.shape.reduce((product, size) => product * size, SIZES[dtype]);
  return end - begin === bytes ? { dtype, shape: entry.shape, begin, end } : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

async function withFile<T>(path: string, flags: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}
