// The axes of tensors: which is finer, and the types that say so.
import { AXES, type Axis } from "./graph.ts";

/** The axes coarser than `A`: those that a reduction of a tensor over `A` may go to. */
export type Coarser<A extends Axis> = A extends "token"
  ? "sample" | "group" | "batch"
  : A extends "sample"
    ? "group" | "batch"
    : A extends "group"
      ? "batch"
      : never;

/** The finer of two axes: what an elementwise op of tensors over `A` and `B` varies over. */
export type Finer<A extends Axis, B extends Axis> = A extends B ? A : B extends Coarser<A> ? A : B;

/** How fine an axis is: 0 for `batch` up to 3 for `token`. */
export const fineness = (axis: Axis): number => AXES.indexOf(axis);

/** The finest of some axes; `batch` of none. */
export const finest = (axes: readonly Axis[]): Axis =>
  axes.reduce<Axis>((a, b) => (fineness(b) > fineness(a) ? b : a), "batch");

/** The axes coarser than one, from fine to coarse. */
export const coarserThan = (axis: Axis): Axis[] => AXES.slice(0, fineness(axis)).reverse();
