// What inputs and metrics mean that many losses share, and what the examples give for the inputs.

interface InputWords {
  readonly meaning: string;
  /** What an example gives: of three samples, the first two for pairs. */
  readonly example: readonly string[];
}

export const INPUTS: Readonly<Record<string, InputWords>> = {
  old: {
    meaning: "log-probabilities of the policy that sampled, the base of the ratio",
    example: ["[0, -0.9, -1.1]", "[0, -0.8, -0.7]"],
  },
  reference: {
    meaning: "log-probabilities of a frozen reference",
    example: ["[0, -0.8, -1.3]", "[0, -0.6, -0.9]"],
  },
  rollout: {
    meaning: "log-probabilities that the sampler itself gave",
    example: ["[0, -0.9, -1.1]", "[0, -0.8, -0.7]"],
  },
  teacher: {
    meaning: "log-probabilities of the teacher",
    example: ["[0, -0.3, -0.6]", "[0, -1.4, -0.9]"],
  },
  advantages: { meaning: "advantages of the completions, or of their tokens", example: ["1", "-1"] },
  rewards: { meaning: "rewards of the completions", example: ["1", "0"] },
  optimalValue: { meaning: "estimate of the best value that the prompt allows", example: ["0.6", "0.6"] },
  winProbability: {
    meaning: "probability of being preferred to a sample of the mixture of policy and reference",
    example: ["0.9", "0.4"],
  },
  labels: { meaning: "1 desirable, -1 undesirable, 0 neither", example: ["1", "-1"] },
  policyWins: { meaning: "1 where the policy's own sample is preferred, else 0", example: ["1"] },
};

export const METRICS: Readonly<Record<string, string>> = {
  nll: "negative log-likelihood; of pairs that of the chosen samples (of `tpo` the gold ones), in nats per token",
  drift: "squared distance to the reference, without its weight",
  probability: "mean probability of the trained tokens",
  kl: "estimate of the divergence from the reference, without its weight; of `kto` the baseline",
  entropyProxy: "mean of minus the log-probability of the trained tokens, in nats",
  accuracy:
    "share of pairs whose chosen reward is the larger, or of labelled samples whose reward has the label's sign",
  margin: "mean of the better reward less the other",
  chosenReward: "mean implicit reward of the chosen samples",
  rejectedReward: "mean implicit reward of the rejected samples",
  chosenLogprob: "mean sequence log-probability of the chosen samples",
  rejectedLogprob:
    "mean sequence log-probability of the rejected samples; both falling together is a warning",
  logOdds: "mean of the log-ratio of the odds",
  desirableReward: "mean implicit reward of the desirable samples",
  undesirableReward: "mean implicit reward of the undesirable samples",
  shift: "mean reward so far, to be handed on as `seenMean`",
  policyWins: "share of pairs that the policy's own sample wins",
  ratioMean: "mean ratio to the old policy; far from 1 on a first step, log-probabilities are out of line",
  ratioMax: "largest ratio",
  approxKlK1: "estimate of the divergence of the old policy from the new, mean of `o - l`",
  approxKlK2: "the same, mean of `(l - o)^2 / 2`",
  approxKlK3: "the same, mean of `r - 1 - (l - o)`",
  effectiveSampleSize: "`(sum r)^2 / (n sum r^2)`: 1 where all ratios are alike",
  zeroVarianceGroups: "number of groups that teach nothing, since all their advantages are 0",
  clipFractionLow: "share of ratios below the lower bound whose advantage is negative",
  clipFractionHigh: "share of ratios above the upper bound whose advantage is positive",
  kept: "share of tokens that have not gone too far",
  weightMean: "mean weight of the tokens",
  reward: "mean implicit reward",
  advantage: "mean of the reward less the best value",
  winProbability: "mean of the input of that name",
  teacherKl: "estimate of the divergence from the teacher, in nats per token",
};
