// On-policy distillation: samples of the policy, judged token by token by a teacher.
import { defineLoss, perToken } from "../loss/define.ts";
import { checkNames, checkRecord } from "../names.ts";
import type { KlOptions } from "./kl.ts";
import { checkNumber } from "./options.ts";
import { type RatioOptions, ratioLoss } from "./policy.ts";
import { checkReduction, type Reduction } from "./reductions.ts";

export interface OpdOptions<K extends KlOptions | undefined = KlOptions | undefined> extends RatioOptions<K> {
  /** Factor of the advantage, above 0. Default 1. */
  readonly coef?: number;
}

/**
 * On-policy distillation by importance sampling, as in Tinker's cookbook: `-r A` per token with `A = coef (u - o)`, the
 * negative reverse divergence of the teacher as far as the sampled token shows it. The inputs `teacher` and `old` hold `u`
 * and `o`, constants. Token sum by default. Metrics as of `importanceSampling`, and `teacherKl`, the mean of `o - u` over
 * the trained tokens.
 */
export function opd<K extends KlOptions | undefined = undefined>(options: OpdOptions<K> = {}) {
  checkRecord("opd", options);
  const { coef = 1 } = options;
  checkNumber("opd.coef", coef, { above: 0 });
  return ratioLoss(
    {
      path: "opd",
      own: ["coef"],
      reduction: "token_sum",
      surrogate: ({ ratio, advantages }) => advantages.scale(ratio).neg(),
      metrics: ({ advantages }) => ({ teacherKl: advantages.mean().div(-coef) }),
    },
    options,
    {
      inputs: { teacher: perToken() },
      compute: ({ teacher, old }) => teacher!.sub(old!).mul(coef),
    },
  );
}

export interface IwOpdOptions {
  /** How much more the beginning of a sample weighs than its end, at least 0. Default 0.5. */
  readonly gamma?: number;
  /** Default `token_mean`. */
  readonly reduction?: Reduction;
}

/**
 * Importance-weighted on-policy distillation (arXiv 2606.22600, as in TRL): `-l w a` per token with `a = u - o` and
 * `w = 1 + gamma (1 - c)`, where `c` is the share of the sample's sum of `abs(a)` that lies before the token: the further
 * policy and teacher have parted, the less a token counts. The inputs `teacher` and `old` hold `u` and `o`, constants.
 *
 * Metrics: `teacherKl`, the mean of `o - u` over the trained tokens; `entropyProxy`, the mean of `-l`.
 */
export function iwOpd(options: IwOpdOptions = {}) {
  checkNames("iwOpd", options, ["gamma", "reduction"]);
  const { gamma = 0.5, reduction = "token_mean" } = options;
  checkNumber("iwOpd.gamma", gamma, { min: 0 });
  const { params, reduce } = checkReduction("iwOpd.reduction", reduction);
  return defineLoss({
    name: "iw_opd",
    inputs: { teacher: perToken(), old: perToken() },
    params,
    loss: ({ logprobs, weights, teacher, old, ...args }) => {
      const gap = teacher.sub(old);
      const distance = gap.abs();
      const passed = distance.cumsum({ exclusive: true }).div(distance.sum("sample").maximum(1e-8));
      const weight = passed.neg().add(1).mul(gamma).add(1);
      return {
        loss: reduce(logprobs.mul(weight).mul(gap).neg(), weights, args),
        metrics: { teacherKl: gap.mean().neg(), entropyProxy: logprobs.mean().neg() },
      };
    },
  });
}
