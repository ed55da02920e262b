// Files that are there whole or not at all.
import { randomUUID } from "node:crypto";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a file in one go: who reads it meanwhile, or after a crash, finds the old one or the new one. */
export async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const scratch = `${path}.${randomUUID()}`;
  try {
    await writeFile(scratch, content, { flush: true });
    await rename(scratch, path);
  } finally {
    await rm(scratch, { force: true });
  }
}
