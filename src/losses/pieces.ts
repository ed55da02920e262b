// What several losses do to values or gradients of log-probabilities.
import type { Axis } from "../loss/graph.ts";
import type { Tensor } from "../loss/tensor.ts";

/**
 * A log-probability held at -1e-6 from above, where `log(1 - exp(x))` still exists: rounding takes that of a certain token
 * to 0 or a little beyond. No slope is left above the bound.
 */
export const belowZero = <A extends Axis>(x: Tensor<A>): Tensor<A> =>
  x.clamp(undefined, -1e-6) as unknown as Tensor<A>;

/** `value` with the gradient of `x`. */
export const straightThrough = (x: Tensor<"token">, value: Tensor<"token">): Tensor<"token"> =>
  x.sub(x.detach()).add(value.detach());
