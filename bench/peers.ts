// Starts the peers that can run on this machine: PyTorch, and the losses written by hand.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ROOT } from "../scripts/setup/command.mjs";
import { SetupFailure } from "../scripts/setup/failure.mjs";
import { buildNative } from "../scripts/setup/native.mjs";
import { alone, setUp } from "../scripts/setup/steps.mjs";
import { requireTools } from "../scripts/setup/tools.mjs";
import { Peer, PeerError } from "./peer.ts";

export interface PeerOptions {
  /** Where the batches lie. */
  readonly folder: string;
  readonly threads: number;
}

/** Where PyTorch computes, as it names it. */
export type PeerDevice = "cpu" | "cuda";

/** A peer, or why there is none. */
type Started = Peer | string;

/** PyTorch in `TOKENGRAD_BENCH_PYTHON`, else in the first python3 on PATH. */
export async function startPython({ folder, threads }: PeerOptions, device: PeerDevice): Promise<Started> {
  const python = process.env.TOKENGRAD_BENCH_PYTHON || "python3";
  const script = fileURLToPath(new URL("python/peer.py", import.meta.url));
  try {
    // A cache of its own, so that the first step after torch.compile is one that compiles.
    const env = { TORCHINDUCTOR_CACHE_DIR: join(folder, "inductor") };
    return await Peer.start(python, [script], { folder, threads, env, rest: [device] });
  } catch (error) {
    if (error instanceof PeerError) return `${python}: ${error.message}`;
    throw error;
  }
}

async function buildHandwritten(): Promise<string> {
  const libtorch = await setUp(ROOT, ["packages", "libtorch"]);
  if (!libtorch) throw new SetupFailure("internal: set-up found no libtorch");
  requireTools({ build: true, fetch: false });
  const build = { folder: "cmake-bench", target: "handwritten", definitions: { TOKENGRAD_BENCH: "ON" } };
  const folder = await alone(ROOT, () => buildNative(ROOT, libtorch, build));
  return join(folder, "handwritten");
}

/** The losses of native/bench, built for this CPU. */
export async function startHandwritten({ folder, threads }: PeerOptions): Promise<Started> {
  try {
    return await Peer.start(await buildHandwritten(), [], { folder, threads });
  } catch (error) {
    if (error instanceof PeerError || error instanceof SetupFailure) return error.message;
    throw error;
  }
}
