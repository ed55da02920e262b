// Symbolic tensors: what a loss function computes with. They hold no numbers, only their place in the trace.
import { describe } from "../errors.ts";
import { type Coarser, coarserThan, type Finer, finest } from "./axes.ts";
import { LossError } from "./errors.ts";
import type { Axis, Kind } from "./graph.ts";
import { OPS, type OpName, type OpRow, SIGNATURES, type SignatureName } from "./ops.ts";
import { callerSource } from "./source.ts";
import type { Trace } from "./trace.ts";

/** How each kind of op looks as a method of a tensor over `A`. */
interface Methods<A extends Axis> {
  unary(): Tensor<A>;
  binary<B extends Axis>(other: Tensor<B> | number): Tensor<Finer<A, B>>;
  clamp<L extends Axis = "batch", U extends Axis = "batch">(
    lower: Tensor<L> | number | undefined,
    upper?: Tensor<U> | number,
  ): Tensor<Finer<A, Finer<L, U>>>;
  power(exponent: number): Tensor<A>;
  comparison<B extends Axis>(other: Tensor<B> | number): Mask<Finer<A, B>>;
  connective<B extends Axis>(other: Mask<B>): Mask<Finer<A, B>>;
  negation(): Mask<A>;
  select<B extends Axis = "batch", C extends Axis = "batch">(
    whenTrue: Tensor<B> | number,
    whenFalse: Tensor<C> | number,
  ): Tensor<Finer<A, Finer<B, C>>>;
  indicator(): Tensor<A>;
  reduction: Reduction<A>;
  count: Reduction<A>;
  member: A extends "sample" ? (index: number) => Tensor<"group"> : never;
}

/** Goes to a coarser axis; to the whole batch where none is named. */
interface ReductionTo<A extends Axis> {
  (): Tensor<"batch">;
  <B extends Coarser<A>>(to: B): Tensor<B>;
}
type Reduction<A extends Axis> = A extends "batch" ? never : ReductionTo<A>;

type FirstOperand<S extends SignatureName> = (typeof SIGNATURES)[S]["operands"][0];
type OpMethods<A extends Axis, K extends Kind> = {
  readonly [Name in OpName as FirstOperand<(typeof OPS)[Name]["signature"]> extends K | "any"
    ? Name
    : never]: Methods<A>[(typeof OPS)[Name]["signature"]];
};

/** One number per element of an axis: per token, sample, group, or one for the whole batch. */
export interface Tensor<A extends Axis> extends Symbolic<A, "number">, OpMethods<A, "number"> {}

/** One truth value per element of an axis. */
export interface Mask<A extends Axis> extends Symbolic<A, "mask">, OpMethods<A, "mask"> {}

/** What tensors and masks have in common. */
export class Symbolic<A extends Axis, K extends Kind> {
  readonly axis: A;
  readonly kind: K;
  readonly #trace: Trace;
  readonly #index: number;

  constructor(trace: Trace, index: number) {
    const node = trace.node(index);
    this.axis = node.axis as A;
    this.kind = node.kind as K;
    this.#trace = trace;
    this.#index = index;
  }

  /** The trace that `value` belongs to; undefined of anything that is no tensor. */
  static traceOf(value: unknown): Trace | undefined {
    return value instanceof Symbolic ? value.#trace : undefined;
  }

  /** Index of the node in its trace. */
  static indexOf(value: Symbolic<Axis, Kind>): number {
    return value.#index;
  }

  /** A tensor has no value while its loss is traced: throws. */
  item(): never {
    return this.#refuse();
  }

  valueOf(): never {
    return this.#refuse();
  }

  [Symbol.toPrimitive](): never {
    return this.#refuse();
  }

  #refuse(): never {
    throw new LossError(
      "ERR_TRACE",
      `a ${this.axis} ${this.kind === "mask" ? "mask" : "tensor"} (${this.#trace.origin(this.#index)}) has no value while the loss is traced: ` +
        "choose between values with mask.where(a, b), and return what you want to read as a metric",
      callerSource(),
    );
  }
}

/** How an operand or a result is named in a message. */
export const describeOperand = (value: unknown): string =>
  value instanceof Symbolic
    ? `a ${value.kind === "mask" ? "mask" : "tensor"} of axis "${value.axis}"`
    : describe(value);

/** Checks one operand and gives its node. */
function operand(
  trace: Trace,
  name: string,
  place: number,
  value: unknown,
  kind: Kind | "any",
  source?: string,
): number {
  if (typeof value === "number" && kind === "number") {
    if (Number.isNaN(value)) throw new LossError("ERR_TRACE", `${name}: operand ${place} is NaN`, source);
    return trace.constant(value, source);
  }
  const expected = kind === "mask" ? "a mask" : "a tensor or a number";
  if (!(value instanceof Symbolic) || (kind !== "any" && value.kind !== kind)) {
    throw new LossError(
      "ERR_TRACE",
      `${name}: operand ${place}: expected ${expected}, got ${describeOperand(value)}`,
      source,
    );
  }
  if (Symbolic.traceOf(value) !== trace) {
    throw new LossError("ERR_TRACE", `${name}: operand ${place} belongs to another loss`, source);
  }
  return Symbolic.indexOf(value);
}

/** The static number of `pow` and `member`. */
function staticNumber(name: string, value: unknown, integer: boolean, source?: string): number {
  const right = integer ? Number.isInteger(value) && (value as number) >= 0 : Number.isFinite(value);
  if (!right) {
    const expected = integer ? "an index of 0 or more" : "a finite number";
    throw new LossError("ERR_TRACE", `${name}: expected ${expected}, got ${describeOperand(value)}`, source);
  }
  return value as number;
}

/** The axis that a reduction goes to. */
function reducedAxis(name: string, from: Axis, to: unknown, source?: string): Axis {
  const allowed = coarserThan(from);
  const axis = to === undefined ? "batch" : (to as Axis);
  if (!allowed.includes(axis)) {
    const expected =
      allowed.map((coarser) => JSON.stringify(coarser)).join(" or ") || "a tensor of a finer axis";
    const got = describe(to === undefined && allowed.length === 0 ? from : to);
    throw new LossError(
      "ERR_AXIS",
      `${name} of a tensor of axis "${from}": expected ${expected}, got ${got}`,
      source,
    );
  }
  return axis;
}

/** Traces one call of an op. */
function apply(name: OpName, self: Symbolic<Axis, Kind>, args: readonly unknown[]): Symbolic<Axis, Kind> {
  const source = callerSource();
  const trace = Symbolic.traceOf(self)!;
  const signature = SIGNATURES[(OPS[name] as OpRow).signature];
  const values = name === "clamp" ? [self, args[0] ?? -Infinity, args[1] ?? Infinity] : [self, ...args];
  const nodes = signature.operands.map((kind, place) =>
    operand(trace, name, place, values[place], kind, source),
  );
  const make = (inputs: readonly number[], axis: Axis, attributes: Record<string, number> = {}) =>
    new Symbolic(trace, trace.add(name, inputs, axis, signature.result, attributes, source));

  if (signature.axis === "coarser") return make(nodes, reducedAxis(name, self.axis, args[0], source));
  if (signature.axis === "member") {
    if (self.axis !== "sample") {
      throw new LossError(
        "ERR_AXIS",
        `${name}: expected a tensor of axis "sample", got "${self.axis}"`,
        source,
      );
    }
    return make(nodes, "group", { index: staticNumber(name, args[0], true, source) });
  }
  const axis = finest(nodes.map((node) => trace.node(node).axis));
  const spread = nodes.map((node) => trace.spread(node, axis, source));
  return make(spread, axis, name === "pow" ? { exponent: staticNumber(name, args[0], false, source) } : {});
}

for (const name of Object.keys(OPS) as OpName[]) {
  Object.defineProperty(Symbolic.prototype, name, {
    value(this: Symbolic<Axis, Kind>, ...args: unknown[]) {
      const wanted = SIGNATURES[(OPS[name] as OpRow).signature].operands[0];
      if (wanted !== "any" && this.kind !== wanted) {
        throw new LossError(
          "ERR_TRACE",
          `${name}: expected a ${wanted === "mask" ? "mask" : "tensor"}, got ${describeOperand(this)}`,
          callerSource(),
        );
      }
      return apply(name, this, args);
    },
  });
}

/** A tensor over an input of a trace. */
export const inputTensor = <A extends Axis>(trace: Trace, name: string, axis: A): Tensor<A> =>
  new Symbolic(trace, trace.input(name, axis)) as unknown as Tensor<A>;
