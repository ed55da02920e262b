// Symbolic tensors: what a loss function computes with. They hold no numbers, only their place in a trace.
import { describe } from "../errors.ts";
import type { Coarser, Finer } from "./axes.ts";
import { LossError } from "./errors.ts";
import type { Axis, Kind } from "./graph.ts";
import type { OPS, OpName, SIGNATURES, SignatureName } from "./ops.ts";
import type { Trace } from "./trace.ts";

/** How each kind of op looks as a method of a tensor over `A`. */
interface Methods<A extends Axis> {
  unary(): Tensor<A>;
  binary: Binary<A>;
  clamp<L extends Axis = "batch", U extends Axis = "batch">(
    lower: Tensor<L> | number | undefined,
    upper?: Tensor<U> | number,
  ): Tensor<Finer<A, Finer<L, U>>>;
  power(exponent: number): Tensor<A>;
  predicate(): Mask<A>;
  comparison: Comparison<A>;
  connective<B extends Axis>(other: Mask<B>): Mask<Finer<A, B>>;
  negation(): Mask<A>;
  select<B extends Axis = "batch", C extends Axis = "batch">(
    whenTrue: Tensor<B> | number,
    whenFalse: Tensor<C> | number,
  ): Tensor<Finer<A, Finer<B, C>>>;
  indicator(): Tensor<A>;
  reduction: Reduction<A>;
  statistic: A extends "batch" ? never : StatisticTo<A>;
  count: Reduction<A>;
  normalization: A extends "batch" ? never : (within?: Coarser<A>) => Tensor<A>;
  order: A extends "sample" | "group" ? (within?: Coarser<A>) => Tensor<A> : never;
  top: A extends "batch"
    ? never
    : <B extends Coarser<A>>(k: Tensor<B> | number, within?: Coarser<A>) => Mask<A>;
  scan: A extends "token" ? (options?: CumsumOptions) => Tensor<"token"> : never;
  shift: A extends "token" ? (offset?: number) => Tensor<"token"> : never;
  member: A extends "sample" ? (index: number) => Tensor<"group"> : never;
  gather: A extends "sample" | "group"
    ? <B extends "sample" | "group">(index: Tensor<B>) => Tensor<B>
    : never;
}

/** A number changes nothing about the axis, which holds for an axis that is not known yet, too. */
interface Binary<A extends Axis> {
  (other: number): Tensor<A>;
  <B extends Axis>(other: Tensor<B> | number): Tensor<Finer<A, B>>;
}
interface Comparison<A extends Axis> {
  (other: number): Mask<A>;
  <B extends Axis>(other: Tensor<B> | number): Mask<Finer<A, B>>;
}

/** Goes to a coarser axis; to the whole batch where none is named. */
interface ReductionTo<A extends Axis> {
  (): Tensor<"batch">;
  <B extends Coarser<A>>(to: B): Tensor<B>;
}
type Reduction<A extends Axis> = A extends "batch" ? never : ReductionTo<A>;

/** `correction` is subtracted from the number of elements that is divided by: 0 (default) or 1. */
interface StatisticTo<A extends Axis> {
  (to?: undefined, options?: { readonly correction?: 0 | 1 }): Tensor<"batch">;
  <B extends Coarser<A>>(to: B, options?: { readonly correction?: 0 | 1 }): Tensor<B>;
}

export interface CumsumOptions {
  /** From the end of the sample instead of its beginning. Default false. */
  readonly reverse?: boolean;
  /** Without the token itself. Default false. */
  readonly exclusive?: boolean;
  /** What the sum so far is multiplied by at each step. Default 1. */
  readonly discount?: number;
}

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

/** What tensors and masks have in common. The methods of the ops are added in call.ts. */
export class Symbolic<A extends Axis = Axis, K extends Kind = Kind> {
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
  static indexOf(value: Symbolic): number {
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
      `a ${this.axis} ${this.kind === "mask" ? "mask" : "tensor"} (${this.#trace.describe(this.#index)}) has no value while the loss is traced: ` +
        "choose between values with mask.where(a, b), and return what you want to read as a metric",
      this.#trace.source(),
    );
  }
}

/** How an operand or a result is named in a message. */
export const describeOperand = (value: unknown): string =>
  value instanceof Symbolic
    ? `a ${value.kind === "mask" ? "mask" : "tensor"} of axis "${value.axis}"`
    : describe(value);

/** A tensor over an input of a trace. */
export const inputTensor = <A extends Axis>(trace: Trace, name: string, axis: A): Tensor<A> =>
  new Symbolic(trace, trace.input(name, axis)) as unknown as Tensor<A>;
