// Those who write and read numbers: tokengrad and JavaScript's JSON in this process, Python's json and orjson in a peer.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Peer } from "../peer.ts";
import { timed } from "../statistics.ts";

/** The titles, in the order of the tables. */
export const OURS = "tokengrad";
export const JAVASCRIPT = "JSON";
export const PYTHON = "json";
export const ORJSON = "orjson";

export const STAGES = {
  float32: "gradients to text, float32",
  bfloat16: "gradients to text, bfloat16",
  ids: "ids to text",
  logprobs: "result to log-probabilities",
} as const;

export type StageName = keyof typeof STAGES;

export interface Contestant {
  readonly title: string;
  /** The numbers that come out, with those of prompts where the stage has them. */
  answer(): Promise<ArrayLike<number>>;
  /** The milliseconds of each run until so many have passed, after one run that does not count. */
  turn(milliseconds: number): Promise<readonly number[]>;
  /** One run, where the event loop of this process does it. */
  readonly run?: () => unknown;
}

/** A contestant in this process. */
export function here(
  title: string,
  run: () => unknown,
  answer: () => Promise<ArrayLike<number>>,
): Contestant {
  return {
    title,
    answer,
    run,
    async turn(milliseconds) {
      const times: number[] = [];
      await run();
      const end = performance.now() + milliseconds;
      do {
        const [, time] = await timed(run);
        times.push(time);
      } while (performance.now() < end);
      return times;
    },
  };
}

/** A library of the peer in Python. */
export function there(library: string, peer: Peer, stage: StageName): Contestant {
  return {
    title: library,
    async answer() {
      await peer.ask(`answer ${stage} ${library}`);
      const answer = readFileSync(join(peer.folder, "answer"));
      return stage === "logprobs"
        ? new Float32Array(answer.buffer, answer.byteOffset, answer.length / 4)
        : parsed(answer);
    },
    async turn(milliseconds) {
      const { times = [] } = await peer.ask<{ times: number[] }>(`turn ${stage} ${library} ${milliseconds}`);
      return times;
    },
  };
}

/** The numbers of a text of rows. */
export const parsed = (text: Buffer): number[] =>
  (JSON.parse(text.toString("latin1")) as { data: number[] }[]).flatMap(({ data }) => data);
