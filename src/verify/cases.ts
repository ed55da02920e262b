// Golden cases: inputs, parameters and what PyTorch computed for them in float64, one JSON file each.
import { describe, TokengradError } from "../errors.ts";

export type Row = readonly number[];
export type Rows = readonly Row[];

interface Case {
  readonly name: string;
  readonly tags: readonly string[];
}

/** A ready loss: its value and its gradients. */
export interface LossCase extends Case {
  readonly kind: "loss";
  readonly loss: string;
  /** Numbers, names, flags, lists or null, by the names of the public systems. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly inputs: {
    readonly logp: Rows;
    readonly mask: Rows;
    readonly old_logp?: Rows;
    readonly rollout_logp?: Rows;
    readonly ref_logp?: Rows;
    readonly teacher_logp?: Rows;
    readonly advantages?: Row;
    readonly token_advantages?: Rows;
    readonly pairs?: Rows;
    readonly triples?: Rows;
    readonly labels?: readonly boolean[];
    readonly kl_logp?: Row;
    readonly kl_ref_logp?: Row;
    readonly rewards?: Row;
    readonly v_star?: Row;
    readonly win_probability?: Row;
    readonly model_chosen?: readonly boolean[];
  };
  readonly expected: { readonly loss: number; readonly gradients: Rows };
}

/** One op: its value, and the gradients of `sum(upstream * value)`. */
export interface OpCase extends Case {
  readonly kind: "op";
  readonly op: string;
  readonly params: {
    readonly min?: number;
    readonly max?: number;
    readonly gamma?: number;
    readonly correction?: 0 | 1;
    readonly lengths?: Row;
    readonly index?: Row;
    readonly expression?: string;
  };
  readonly inputs: { readonly x: Row; readonly y?: Row };
  readonly upstream: Row;
  readonly expected: { readonly value: Row; readonly gradients: { readonly x: Row; readonly y?: Row } };
}

/** An estimator of advantages. */
export interface AdvantageCase extends Case {
  readonly kind: "advantage";
  readonly advantage: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly inputs: {
    readonly rewards?: Row;
    readonly groups?: Row;
    readonly token_rewards?: Rows;
    readonly values?: Rows;
    readonly mask?: Rows;
    readonly old_logp?: Rows;
    readonly ref_logp?: Rows;
    readonly advantages?: Row;
  };
  readonly expected: { readonly advantages: Row | Rows };
}

export type GoldenCase = LossCase | OpCase | AdvantageCase;

/** A case that is broken, or asks for what there is not. */
export class CaseError extends TokengradError {
  constructor(problem: string) {
    super("ERR_CASE", problem);
  }
}

const SPECIAL: Readonly<Record<string, number>> = { NaN: Number.NaN, Infinity, "-Infinity": -Infinity };

const isNumbers = (value: unknown): value is Row =>
  Array.isArray(value) && value.every((x) => typeof x === "number");
const isRows = (value: unknown): value is Rows => Array.isArray(value) && value.every(isNumbers);
const haveSameShape = (a: Rows, b: Rows) =>
  a.length === b.length && a.every((row, i) => row.length === b[i]!.length);

type Check = readonly [path: string, expected: string, holds: boolean, came: unknown];

/** What each kind must hold for its case to be run at all. */
const CHECKS: Readonly<Record<GoldenCase["kind"], (golden: never) => Check[]>> = {
  loss: ({ loss, inputs: { logp, mask }, expected }: LossCase) => [
    ["loss", "a name", typeof loss === "string", loss],
    ["inputs.logp", "rows of numbers", isRows(logp), logp],
    [
      "inputs.mask",
      "rows as of inputs.logp",
      isRows(mask) && isRows(logp) && haveSameShape(mask, logp),
      mask,
    ],
    ["expected.loss", "a number", typeof expected.loss === "number", expected.loss],
    [
      "expected.gradients",
      "rows as of inputs.logp",
      isRows(expected.gradients) && isRows(logp) && haveSameShape(expected.gradients, logp),
      expected.gradients,
    ],
  ],
  op: ({ op, inputs, upstream, expected }: OpCase) => [
    ["op", "a name", typeof op === "string", op],
    ["inputs.x", "numbers", isNumbers(inputs.x), inputs.x],
    ["upstream", "numbers", isNumbers(upstream), upstream],
    [
      "expected.value",
      "numbers, as many as upstream",
      expected.value?.length === upstream?.length,
      expected.value,
    ],
    ["expected.gradients.x", "numbers", isNumbers(expected.gradients?.x), expected.gradients?.x],
  ],
  advantage: ({ advantage, expected: { advantages } }: AdvantageCase) => [
    ["advantage", "a name", typeof advantage === "string", advantage],
    ["expected.advantages", "numbers or rows", isNumbers(advantages) || isRows(advantages), advantages],
  ],
};

/** The float32 value that each number in a decimal text stands for. */
function toFloat32(value: unknown): unknown {
  if (typeof value === "number") return Math.fround(value);
  if (Array.isArray(value)) return value.map(toFloat32);
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, toFloat32(part)]))
    : value;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Reads a case. Inputs are float32 values in decimals, rounded to these; parameters and what is expected are float64.
 *
 * @throws {CaseError} naming what is missing or of the wrong kind.
 */
export function parseCase(text: string): GoldenCase {
  let given: unknown;
  try {
    given = JSON.parse(text, (_, value) =>
      typeof value === "string" && Object.hasOwn(SPECIAL, value) ? SPECIAL[value] : value,
    );
  } catch (error) {
    throw new CaseError(`expected JSON, got ${(error as Error).message}`);
  }
  if (!isObject(given)) throw new CaseError(`expected an object, got ${describe(given)}`);
  const { format, kind } = given;
  if (format !== 1) throw new CaseError(`format: expected 1, got ${describe(format)}`);
  if (typeof kind !== "string" || !Object.hasOwn(CHECKS, kind)) {
    throw new CaseError(`kind: expected ${Object.keys(CHECKS).join(", ")}, got ${describe(kind)}`);
  }
  for (const name of ["params", "inputs", "expected"]) {
    if (!isObject(given[name]))
      throw new CaseError(`${name}: expected an object, got ${describe(given[name])}`);
  }
  const golden = given as unknown as GoldenCase;
  for (const [path, expected, holds, came] of CHECKS[golden.kind](golden as never)) {
    if (!holds) throw new CaseError(`${path}: expected ${expected}, got ${describe(came)}`);
  }
  return { ...golden, inputs: toFloat32(golden.inputs) } as GoldenCase;
}
