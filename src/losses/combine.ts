// Weighted sums of losses.
import { describe, InputError } from "../errors.ts";
import { defineLoss, type Loss, type LossInput, type LossInputs } from "../loss/define.ts";
import type { Axis } from "../loss/graph.ts";
import { inline } from "../loss/inline.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames, checkRecord } from "../names.ts";
import { checkNumber } from "./options.ts";

type Losses = Readonly<Record<string, Loss>>;
type Names<L extends Losses> = keyof L & string;

/** A sum of losses: parameters and metrics are those of its parts, each behind its part's name and a dot. */
export type CombinedLoss<L extends Losses> = Loss<
  LossInputs,
  {
    readonly [Name in
      | `${Names<L>}.weight`
      | { [Part in Names<L>]: `${Part}.${keyof L[Part]["params"] & string}` }[Names<L>]]: number;
  },
  Names<L> | { [Part in Names<L>]: `${Part}.${L[Part]["metrics"][number]}` }[Names<L>],
  Names<L>
>;

/** The inputs of all parts: those of one name are one. */
function mergeInputs(losses: Losses): LossInputs {
  const inputs: Record<string, LossInput> = {};
  for (const [part, loss] of Object.entries(losses)) {
    for (const [name, input] of Object.entries(loss.inputs)) {
      const known = inputs[name];
      if (known !== undefined && known.axis !== input.axis) {
        throw new InputError(
          `combine.${part}`,
          `expected the input ${name} per ${known.axis}, as of the losses before it, got it per ${input.axis}`,
        );
      }
      inputs[name] = input;
    }
  }
  return inputs;
}

/**
 * The weighted sum of losses, in one pass: a preference loss and a likelihood, any loss and `klPenalty()`. Inputs of the
 * same name are the same.
 *
 * Parameters: each weight as `name.weight`, and those of the parts as `name.parameter`. Metrics: each loss by its name,
 * without its weight, and the metrics of the parts as `name.metric`. Terms: the weighted losses by their names.
 *
 * @param losses The losses by names of your choice.
 * @param weights Weights by the same names. Default 1 each.
 * @example
 * combine({ policy: ppo(), kl: klPenalty(), entropy: entropyProxy() }, { entropy: 0.5 })
 */
export function combine<const L extends Losses>(
  losses: L,
  weights: { readonly [Name in keyof L]?: number } = {},
): CombinedLoss<L> {
  checkRecord("combine.losses", losses);
  const names = Object.keys(losses);
  if (names.length === 0) throw new InputError("combine.losses", "expected at least one loss, got none");
  for (const name of names) {
    if (typeof losses[name]?.graph !== "object")
      throw new InputError(`combine.losses.${name}`, `expected a loss, got ${describe(losses[name])}`);
  }
  checkNames("combine.weights", weights, names);
  const params: Record<string, number> = {};
  for (const name of names) {
    const { [name]: weight = 1 } = weights as Readonly<Record<string, number>>;
    checkNumber(`combine.weights.${name}`, weight);
    params[`${name}.weight`] = weight;
    for (const [param, value] of Object.entries(losses[name]!.params)) params[`${name}.${param}`] = value;
  }

  const combined = defineLoss({
    name: names.map((name) => losses[name]!.name).join("+"),
    inputs: mergeInputs(losses),
    params,
    loss: (given) => {
      const args = given as unknown as { readonly logprobs: Tensor<"token"> } & Record<string, Tensor<Axis>>;
      const metrics: Record<string, Tensor<"batch">> = {};
      const terms: Record<string, Tensor<"batch">> = {};
      for (const name of names) {
        const own = Object.keys(losses[name]!.params).map((param) => [param, args[`${name}.${param}`]!]);
        const part = inline(losses[name]!, { ...args, ...Object.fromEntries(own) });
        metrics[name] = part.loss;
        for (const [metric, value] of Object.entries(part.metrics)) metrics[`${name}.${metric}`] = value;
        terms[name] = part.loss.mul(given[`${name}.weight`]!);
      }
      return { loss: Object.values(terms).reduce((sum, term) => sum.add(term)), metrics, terms };
    },
  });
  return combined as unknown as CombinedLoss<L>;
}
