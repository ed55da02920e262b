// The tables of the wire.
import { growth, type Sized } from "../scaling.ts";
import { count, figure, spread, table } from "../table.ts";
import { JAVASCRIPT, ORJSON, OURS, PYTHON, STAGES, type StageName } from "./contestants.ts";
import type { Row } from "./measure.ts";

const PEERS = [JAVASCRIPT, PYTHON, ORJSON];

/** How many times as long a peer takes as tokengrad; undefined if it did not run. */
export function ratio({ times }: Row, peer: string): number | undefined {
  const theirs = times.get(peer)?.median;
  return theirs && theirs / times.get(OURS)!.median;
}

/** Nanoseconds of a value: of the clock, and of all threads together. */
export function perValue({ times, values }: Row, threads: number): { clock: number; threads: number } {
  const clock = (times.get(OURS)!.median * 1e6) / values;
  return { clock, threads: clock * threads };
}

export const stageTable = (rows: readonly Row[], threads: number): string =>
  table(
    [
      "stage",
      "workload",
      OURS,
      "ns a value",
      "ns a value and thread",
      ...PEERS,
      ...PEERS.map((peer) => `${peer} / ours`),
      "event loop held",
    ],
    rows.map((row) => {
      const each = perValue(row, threads);
      return [
        STAGES[row.stage],
        row.workload,
        spread(row.times.get(OURS)),
        figure(each.clock),
        figure(each.threads),
        ...PEERS.map((peer) => figure(row.times.get(peer)?.median)),
        ...PEERS.map((peer) => figure(ratio(row, peer))),
        figure(row.hold),
      ];
    }),
  );

/** Each stage by the size of the batch: milliseconds, and how many times as long as a quarter of it. */
export function scalingTable(scaled: ReadonlyMap<StageName, readonly Sized[]>): string {
  const stages = [...scaled];
  const sizes = stages[0]![1];
  const ratios = stages.map(([, each]) => new Map(growth(each).map(({ tokens, ratio }) => [tokens, ratio])));
  return table(
    ["tokens", ...stages.flatMap(([stage]) => [STAGES[stage], "times a quarter's"])],
    sizes.map(({ tokens }, size) => [
      count(tokens),
      ...stages.flatMap(([, each], stage) => [
        figure(each[size]!.time.median),
        figure(ratios[stage]!.get(tokens)),
      ]),
    ]),
  );
}
