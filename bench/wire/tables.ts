// The tables of the wire.
import { growth, type Sized } from "../scaling.ts";
import { count, figure, holdFigure, spread, table } from "../table.ts";
import { JAVASCRIPT, ORJSON, OURS, PYTHON, STAGES, type StageName } from "./contestants.ts";
import type { Row } from "./measure.ts";

const PEERS = [JAVASCRIPT, PYTHON, ORJSON];

/** How many times as long a peer takes as tokengrad; undefined if it did not run. */
export function ratio({ times }: Row, peer: string): number | undefined {
  const theirs = times.get(peer)?.median;
  return theirs && theirs / times.get(OURS)!.median;
}

/** Nanoseconds of a value, of milliseconds of a run. */
const perValue = ({ values }: Row, ms: number) => (ms * 1e6) / values;

/** Nanoseconds that a value takes of all threads together: as if there were one. */
export const cpuPerValue = (row: Row): number => perValue(row, row.cpu);

export const stageTable = (rows: readonly Row[]): string =>
  table(
    [
      "stage",
      "workload",
      OURS,
      "ns a value",
      "CPU, ns a value",
      ...PEERS,
      ...PEERS.map((peer) => `${peer} / ours`),
      "event loop held",
    ],
    rows.map((row) => [
      STAGES[row.stage],
      row.workload,
      spread(row.times.get(OURS)),
      figure(perValue(row, row.times.get(OURS)!.median)),
      figure(cpuPerValue(row)),
      ...PEERS.map((peer) => figure(row.times.get(peer)?.median)),
      ...PEERS.map((peer) => figure(ratio(row, peer))),
      holdFigure(row.hold),
    ]),
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
