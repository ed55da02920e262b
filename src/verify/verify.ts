// Runs golden cases and compares what comes with what PyTorch computed.
import { createBatch } from "../engine/batch.ts";
import type { Precision } from "../engine/binding.ts";
import type { Engine } from "../engine/engine.ts";
import { describe, TokengradError } from "../errors.ts";
import { ADVANTAGES } from "./advantages.ts";
import {
  type AdvantageCase,
  CaseError,
  type GoldenCase,
  type LossCase,
  type OpCase,
  type Row,
} from "./cases.ts";
import { setUp } from "./loss-case.ts";
import { isAmongSamples, opLoss } from "./op-case.ts";

/** Relative to the largest expected gradient of a case; of a loss to the loss, where that is above 1. */
const TOLERANCES = {
  float32: { relative: 2e-5, floor: 1e-37 },
  float64: { relative: 1e-9, floor: 1e-300 },
} as const;

interface Tolerance {
  readonly relative: number;
  readonly floor: number;
}

/** What came and what was expected, and where. */
interface Compared {
  readonly where: string;
  readonly got: number;
  readonly expected: number;
}

const distance = ({ got, expected }: Compared) =>
  Object.is(got, expected) || got === expected ? 0 : Math.abs(got - expected);

/** One line about the numbers that are too far off, if there are any: the worst of them, and how many. */
function differences(numbers: readonly Compared[], allowed: number): string[] {
  const wrong = numbers.filter((number) => !(distance(number) <= allowed));
  if (wrong.length === 0) return [];
  const worst = wrong.reduce((a, b) => (distance(a) >= distance(b) ? a : b));
  const { where, got, expected } = worst;
  const others = wrong.length === 1 ? "" : `; ${wrong.length} of ${numbers.length} numbers are off`;
  return [
    `${where}: expected ${expected}, got ${got}, off by ${distance(worst).toExponential(2)} ` +
      `where ${allowed.toExponential(2)} is allowed${others}`,
  ];
}

const pair = (where: (i: number) => string, got: Row, expected: Row): Compared[] =>
  expected.map((number, i) => ({ where: where(i), got: got[i] ?? Number.NaN, expected: number }));

/** Compares lists of one meaning by their largest expected number. */
function compareAll(numbers: readonly Compared[], { relative, floor }: Tolerance): string[] {
  const largest = numbers.reduce((most, { expected }) => Math.max(most, Math.abs(expected)), 0);
  return differences(numbers, relative * largest + floor);
}

/** What a case must end in instead of numbers: nothing to train on, or a plain 0 / 0 that must not be sent. */
function expectedRefusal({ inputs, expected }: LossCase): string | undefined {
  if (inputs.mask.flat().every((weight) => weight === 0)) return "ERR_EMPTY_BATCH";
  return Number.isFinite(expected.loss) ? undefined : "ERR_NON_FINITE";
}

async function runLoss(golden: LossCase, engine: Engine, precision: Precision) {
  const { loss, samples, weights, logprobs, groups, inputs, params } = setUp(golden);
  const batch = await createBatch({
    weights,
    logprobs,
    groups,
    precision,
    inputs,
    clampLogprobs: false,
  });
  const result = await engine.run(loss, batch, { dtype: precision, params });
  // A sample that stands in several pairs gets the sum of its gradients.
  const gradients = golden.inputs.logp.map((row) => row.map(() => 0));
  const others: Compared[] = [];
  samples.forEach((sample, place) => {
    result.gradients.row(place).forEach((got, position) => {
      if (sample === undefined) others.push({ where: "a gradient of the baseline", got, expected: 0 });
      else gradients[sample]![position]! += got;
    });
  });
  return { loss: result.loss, gradients, others };
}

async function verifyLoss(golden: LossCase, engine: Engine, precision: Precision): Promise<string[]> {
  const { expected } = golden;
  const refusal = expectedRefusal(golden);
  if (refusal !== undefined) {
    try {
      await runLoss(golden, engine, precision);
    } catch (error) {
      if (error instanceof TokengradError && error.code === refusal) return [];
      throw error;
    }
    return [`expected to be refused with ${refusal}, got a loss and gradients`];
  }
  const { loss, gradients, others } = await runLoss(golden, engine, precision);
  const tolerance = TOLERANCES[precision];
  const rows = expected.gradients.flatMap((row, sample) =>
    pair((position) => `gradient of sample ${sample}, position ${position}`, gradients[sample]!, row),
  );
  return [
    ...differences(
      [{ where: "loss", got: loss, expected: expected.loss }],
      tolerance.relative * Math.max(1, Math.abs(expected.loss)),
    ),
    ...compareAll(rows, tolerance),
    ...differences(others, 0),
  ];
}

async function verifyOp(golden: OpCase, engine: Engine, precision: Precision): Promise<string[]> {
  const { params, inputs, upstream, expected } = golden;
  const tolerance = TOLERANCES[precision];
  const found: string[] = [];
  for (const variable of ["x", "y"] as const) {
    const [values, gradients] = [inputs[variable], expected.gradients[variable]];
    if (values === undefined || gradients === undefined) continue;
    const loss = opLoss(golden, variable);
    const lengths = params.lengths ?? (isAmongSamples(golden) ? values.map(() => 1) : [values.length]);
    const other = inputs[variable === "x" ? "y" : "x"] ?? values;
    const run = async (upstream: Row) => {
      const batch = await createBatch({
        // What an op is tried on need not be a log-probability.
        clampLogprobs: false,
        weights: lengths.map((length) => Array<number>(Math.max(length, 1)).fill(+(length > 0))),
        precision,
        logprobs: Float64Array.from(values),
        inputs: {
          upstream,
          ...("other" in loss.inputs && { other }),
          ...("index" in loss.inputs && { index: params.index ?? values.map((_, i) => i) }),
        },
      });
      return engine.run(loss, batch, { dtype: precision });
    };
    const rows = [...(await run(upstream)).gradients].map((row, i) => [...row].slice(0, lengths[i]!));
    found.push(
      ...compareAll(
        pair((i) => `gradient ${i} of ${variable}`, rows.flat(), gradients),
        tolerance,
      ),
    );
    const single: number[] = [];
    for (const i of upstream.keys()) single.push((await run(upstream.map((_, j) => +(i === j)))).loss);
    found.push(
      ...compareAll(
        pair((i) => `value ${i}`, single, expected.value),
        tolerance,
      ),
    );
  }
  return found;
}

function verifyAdvantages(golden: AdvantageCase): string[] {
  if (!Object.hasOwn(ADVANTAGES, golden.advantage)) {
    throw new CaseError(`advantage: expected one that is known, got ${describe(golden.advantage)}`);
  }
  const got = ADVANTAGES[golden.advantage]!(golden);
  const expected = golden.expected.advantages;
  const isRow = (row: unknown): row is ArrayLike<number> => typeof row === "object";
  const numbers = Array.from(expected as readonly (number | Row)[], (one, sample) => {
    const mine: unknown = got[sample];
    return isRow(one)
      ? pair((t) => `sample ${sample}, position ${t}`, isRow(mine) ? Array.from(mine) : [], one)
      : [{ where: `sample ${sample}`, got: typeof mine === "number" ? mine : Number.NaN, expected: one }];
  });
  // Advantages are always computed in float64.
  return compareAll(numbers.flat(), TOLERANCES.float64);
}

/**
 * Runs a case and tells what differs, a line each; none if nothing does.
 *
 * @param engine Computes losses and ops; advantages need none.
 * @param precision That of the values per token, and the tolerance.
 * @throws {CaseError} if the case asks for what there is not; otherwise as the engine does.
 */
export async function verifyCase(
  golden: GoldenCase,
  engine: Engine,
  precision: Precision,
): Promise<readonly string[]> {
  if (golden.kind === "loss") return verifyLoss(golden, engine, precision);
  return golden.kind === "op" ? verifyOp(golden, engine, precision) : verifyAdvantages(golden);
}
