// Policy-gradient losses.
import { defineLoss, perSample } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { checkReduction, type Reduction, reduce } from "./reductions.ts";

/**
 * Plain policy gradient (REINFORCE): `-A l` per token, where the input `advantages` holds one `A` per sample.
 *
 * @param options.reduction Default `seq_mean_token_mean`.
 */
export function reinforce(options: { reduction?: Reduction } = {}) {
  checkNames("reinforce", options, ["reduction"]);
  const { reduction = "seq_mean_token_mean" } = options;
  checkReduction("reinforce.reduction", reduction);
  return defineLoss({
    name: "reinforce",
    inputs: { advantages: perSample() },
    loss: ({ logprobs, weights, advantages }) => reduce(logprobs.mul(advantages).neg(), weights, reduction),
  });
}
