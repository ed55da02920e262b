// Starts programs of bench/python.
import { fileURLToPath } from "node:url";
import { Peer, PeerError } from "./peer.ts";

/** A peer, or why there is none. */
export type Started = Peer | string;

/** Runs a script in `TOKENGRAD_BENCH_PYTHON`, else in the first python3 on PATH. */
export async function startPython(
  script: string,
  options: Parameters<typeof Peer.start>[2],
): Promise<Started> {
  const python = process.env.TOKENGRAD_BENCH_PYTHON || "python3";
  const path = fileURLToPath(new URL(`python/${script}`, import.meta.url));
  try {
    return await Peer.start(python, [path], options);
  } catch (error) {
    if (error instanceof PeerError) return `${python}: ${error.message}`;
    throw error;
  }
}
