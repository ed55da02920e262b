// Starts the peers that can run on this machine: PyTorch, and the losses written by hand.
import { join } from "node:path";
import { ROOT } from "../../scripts/setup/command.mjs";
import { SetupFailure } from "../../scripts/setup/failure.mjs";
import { buildNative } from "../../scripts/setup/native.mjs";
import { alone, setUp } from "../../scripts/setup/steps.mjs";
import { requireTools } from "../../scripts/setup/tools.mjs";
import { Peer, PeerError } from "../peer.ts";
import { type Started, startPython } from "../python.ts";

/** Where PyTorch computes, as it names it. */
export type PeerDevice = "cpu" | "cuda";

export interface PeerOptions {
  /** Where the batches lie. */
  readonly folder: string;
  readonly threads: number;
}

/** PyTorch, with a cache of its own, so that the first step after torch.compile is one that compiles. */
export const startPyTorch = ({ folder, threads }: PeerOptions, device: PeerDevice): Promise<Started> =>
  startPython("peer.py", {
    folder,
    threads,
    rest: [device],
    env: { TORCHINDUCTOR_CACHE_DIR: join(folder, "inductor") },
  });

async function buildHandwritten(): Promise<string> {
  const libtorch = await setUp(ROOT, ["packages", "libtorch"]);
  if (!libtorch) throw new SetupFailure("internal: set-up found no libtorch");
  requireTools({ build: true, fetch: false });
  const build = { folder: "cmake-bench", target: "handwritten", definitions: { TOKENGRAD_BENCH: "ON" } };
  const folder = await alone(ROOT, () => buildNative(ROOT, libtorch, build));
  return join(folder, "handwritten");
}

/** The losses of native/bench, built for this CPU. */
export async function startHandwritten(options: PeerOptions): Promise<Started> {
  try {
    return await Peer.start(await buildHandwritten(), [], options);
  } catch (error) {
    if (error instanceof PeerError || error instanceof SetupFailure) return error.message;
    throw error;
  }
}
