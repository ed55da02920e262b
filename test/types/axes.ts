// Compiled, never run: what the types of tensors accept and refuse. A line marked as an error must be one.
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import type { Mask, Tensor } from "../../src/loss/tensor.ts";

declare const token: Tensor<"token">;
declare const sample: Tensor<"sample">;
declare const group: Tensor<"group">;
declare const batch: Tensor<"batch">;
declare const tokenMask: Mask<"token">;
declare const sampleMask: Mask<"sample">;

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <A, B>(..._: Equal<A, B> extends true ? [] : [never]): void => {};

// Elementwise ops give the finer axis, in either order; numbers change nothing.
const mixed = token.add(sample);
is<typeof mixed, Tensor<"token">>();
const swapped = sample.mul(token);
is<typeof swapped, Tensor<"token">>();
const coarse = group.div(batch);
is<typeof coarse, Tensor<"group">>();
const lifted = sample.maximum(0);
is<typeof lifted, Tensor<"sample">>();
const clipped = token.clamp(undefined, batch);
is<typeof clipped, Tensor<"token">>();
const spreadByBound = batch.clamp(sample, 2);
is<typeof spreadByBound, Tensor<"sample">>();
const chosen = sampleMask.where(token, 0);
is<typeof chosen, Tensor<"token">>();
const compared = sample.gt(token).and(tokenMask).or(sampleMask).not();
is<typeof compared, Mask<"token">>();

// Of an axis that is not known yet, a number changes nothing.
const helper = <A extends "token" | "sample">(x: Tensor<A>): Tensor<A> => x.exp().sub(1);
is<ReturnType<typeof helper<"token">>, Tensor<"token">>();

// Reductions go to coarser axes, and to the batch by default.
const perSampleMean = token.mean("sample");
is<typeof perSampleMean, Tensor<"sample">>();
const total = group.sum();
is<typeof total, Tensor<"batch">>();
const counted = tokenMask.count("group");
is<typeof counted, Tensor<"group">>();
const first = sample.member(0);
is<typeof first, Tensor<"group">>();

// @ts-expect-error a reduction cannot go to a finer axis
sample.mean("token");
// @ts-expect-error nor to its own
sample.sum("sample");
// @ts-expect-error nor can a batch scalar be reduced
batch.mean();
// @ts-expect-error only samples are members of groups
token.member(0);
// @ts-expect-error a mask is no number
tokenMask.add(1);
// @ts-expect-error a number is no mask
token.and(tokenMask);
// @ts-expect-error a mask is not multiplied
token.mul(tokenMask);
// @ts-expect-error an axis is not forgotten
const wrong: Tensor<"sample"> = token;
// @ts-expect-error strings are not lifted
token.add("1");

// Inputs and parameters have the axis they were declared with.
const loss = defineLoss({
  inputs: { reference: perToken(), advantages: perSample(), margin: perGroup() },
  params: { beta: 0.1 },
  loss: ({ logprobs, weights, reference, advantages, margin, beta }) => {
    is<typeof reference, Tensor<"token">>();
    is<typeof advantages, Tensor<"sample">>();
    is<typeof margin, Tensor<"group">>();
    is<typeof beta, Tensor<"batch">>();
    const value = logprobs.sub(reference).mul(weights).mean("sample").mul(advantages).mul(beta).mean();
    return { loss: value, metrics: { margin: margin.mean() } };
  },
});
const names: readonly "margin"[] = loss.metrics;
const defaults: { readonly beta: number } = loss.params;

// @ts-expect-error a loss is a batch scalar
defineLoss({ loss: ({ logprobs }) => logprobs.mean("sample") });
// @ts-expect-error and is not async
defineLoss({ loss: async ({ logprobs }) => logprobs.mean() });
// @ts-expect-error metrics are batch scalars
defineLoss({ loss: ({ logprobs }) => ({ loss: logprobs.mean(), metrics: { x: logprobs } }) });
// @ts-expect-error an input that was not declared
defineLoss({ loss: ({ logprobs, reference }) => logprobs.sub(reference).mean() });

// Helpers may be generic over the axis.
export const squaredError = <A extends "token" | "sample">(a: Tensor<A>, b: Tensor<A>) => a.sub(b).square();
export const used = { wrong, names, defaults, squared: squaredError(token, token).mean("sample") };
