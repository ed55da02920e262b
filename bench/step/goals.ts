// The goals of whole steps.
import { type Goal, LARGE, reachedBy } from "../goals.ts";
import { BFLOAT16, FLOAT32 } from "./contestants.ts";
import type { Measured } from "./measure.ts";
import { bytes, growth, PYTHON, peak, type Row, ratio, whole } from "./rows.ts";

const where = ({ loss, workload }: Row) => `${loss} at ${workload}`;
const DTYPES = [FLOAT32, BFLOAT16] as const;

type Peer = keyof typeof PYTHON;

/** How many times as long a peer's step takes, on workloads that are large, or on those that are not. */
const faster =
  (peer: Peer, dtype: string, bound: number, large: boolean) =>
  (rows: readonly Row[]): Goal => ({
    what: `${peer} / ${dtype}, whole step${large ? "" : ", small batch"}`,
    bound,
    more: true,
    reached: reachedBy(
      rows.filter(({ workload }) => LARGE.includes(workload) === large),
      where,
      (row) => ratio(row, PYTHON[peer], [dtype], whole),
    ),
  });

/** What share of a peer's something it takes. */
const less =
  (what: string, value: (measured: Measured) => number, peer: Peer, dtype: string, bound: number) =>
  (rows: readonly Row[]): Goal => ({
    what: `${dtype} / ${peer}, ${what}`,
    bound,
    more: false,
    reached: reachedBy(rows, where, (row) => ratio(row, [dtype], PYTHON[peer], value)),
  });

const GOALS: readonly ((rows: readonly Row[]) => Goal)[] = [
  faster("vendor", FLOAT32, 50, true),
  faster("vendor", BFLOAT16, 60, true),
  faster("guide", FLOAT32, 20, true),
  faster("guide", BFLOAT16, 30, true),
  faster("best", FLOAT32, 4, true),
  faster("best", BFLOAT16, 6, true),
  ...DTYPES.map((dtype) => faster("vendor", dtype, 30, false)),
  ...DTYPES.map((dtype) => faster("best", dtype, 4, false)),
  ...DTYPES.map((dtype) => less("peak memory", peak, "vendor", dtype, 0.25)),
  ...DTYPES.map((dtype) => less("memory beyond the start", growth, "vendor", dtype, 0.25)),
  less("bytes a gradient", bytes, "vendor", FLOAT32, 0.6),
  less("bytes a gradient", bytes, "vendor", BFLOAT16, 0.35),
];

const held =
  (dtype: string) =>
  (rows: readonly Row[]): Goal => ({
    what: `${dtype}, event loop held, ms`,
    bound: 5,
    more: false,
    reached: reachedBy(rows, where, ({ measured }) => measured.get(dtype)?.hold?.own),
  });

export const stepGoals = (rows: readonly Row[]): Goal[] =>
  [...GOALS, ...DTYPES.map(held)].map((goal) => goal(rows));
