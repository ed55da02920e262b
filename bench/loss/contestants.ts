// Those who run the losses: the engine's executors, and the styles of the peers.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Batch } from "../../src/engine/batch.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import type { Gradients } from "../../src/engine/gradients.ts";
import type { EngineOptions } from "../../src/engine/options.ts";
import type { Loss } from "../../src/loss/define.ts";
import type { CaseName } from "../cases.ts";
import { type Peer, PeerError } from "../peer.ts";
import { timed } from "../statistics.ts";
import type { WorkloadName } from "../workload.ts";

/** A loss on a batch. */
export interface Task {
  readonly name: CaseName;
  readonly loss: Loss;
  readonly workload: WorkloadName;
  readonly batch: Batch;
}

export interface Answer {
  readonly loss: number;
  /** In full rows. */
  readonly gradients: Float32Array;
  /** Milliseconds of the run that gave the answer. */
  readonly first: number;
}

export interface Contestant {
  readonly title: string;
  /** Runs once. */
  answer(task: Task): Promise<Answer>;
  /** Milliseconds of each of some runs, after one that does not count. */
  time(task: Task, runs: number): Promise<readonly number[]>;
}

/** The titles, in the order of the tables. */
export const FUSED = "fused";
export const TORCH = "torch";
export const LIST = "eager, list";
export const PACKED = ["eager, flat", "eager, padded"] as const;
export const COMPILED = ["compiled, flat", "compiled, padded"] as const;
export const HANDWRITTEN = "hand-written";

/** An engine for each turn: threads of another one that wait beside it would change how OpenMP wakes its own. */
export function engineContestant(title: string, options: EngineOptions): Contestant {
  const step = async (engine: Engine, { loss, batch }: Task, into?: Gradients<"float32">) =>
    engine.run(loss, batch, { into });
  return {
    title,
    async answer(task) {
      using engine = await createEngine(options);
      const [{ loss, gradients }, first] = await timed(() => step(engine, task));
      return { loss, gradients: new Float32Array(gradients.buffer), first };
    },
    async time(task, runs) {
      using engine = await createEngine(options);
      // As a training loop does, each step takes the memory of the gradients before it.
      let { gradients } = await step(engine, task);
      const times: number[] = [];
      for (let run = 0; run < runs; run++) {
        const [result, time] = await timed(() => step(engine, task, gradients));
        gradients = result.gradients;
        times.push(time);
      }
      return times;
    },
  };
}

function peerContestant(title: string, peer: Peer, style: string): Contestant {
  return {
    title,
    async answer({ name, workload }) {
      const { loss, first } = await peer.ask<{ loss: number; first: number }>(`answer ${name} ${style}`);
      if (loss === undefined || first === undefined) throw new PeerError("expected a loss and a time");
      const { buffer, byteOffset, byteLength } = await readFile(join(peer.folder, workload, "gradients.f32"));
      return { loss, gradients: new Float32Array(buffer, byteOffset, byteLength / 4), first };
    },
    async time({ name }, runs) {
      const { times } = await peer.ask<{ times: number[] }>(`time ${name} ${style} ${runs}`);
      if (times?.length !== runs) throw new PeerError(`expected ${runs} times`);
      return times;
    },
  };
}

export const pythonContestants = (peer: Peer): Contestant[] => [
  peerContestant(LIST, peer, "list"),
  peerContestant(PACKED[0], peer, "flat"),
  peerContestant(PACKED[1], peer, "padded"),
  peerContestant(COMPILED[0], peer, "compiled-flat"),
  peerContestant(COMPILED[1], peer, "compiled-padded"),
];

export const handwrittenContestants = (peer: Peer): Contestant[] => [
  peerContestant(HANDWRITTEN, peer, "handwritten"),
];
