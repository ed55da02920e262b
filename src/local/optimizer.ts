// The parameters of an optimizer step.
import type { NativeAdam } from "./binding.ts";
import { fields, type Read, real } from "./fields.ts";
import { invalid } from "./problem.ts";

/** AdamW where the request leaves something out. */
const DEFAULTS: NativeAdam = {
  learningRate: 1e-4,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-8,
  weightDecay: 0,
  gradClipNorm: 1,
};

const decay: Read<number> = (value, path) => {
  const number = real(0, 1)(value, path);
  if (number === 1) throw invalid(path, "expected a number below 1, got 1");
  return number;
};

/**
 * The body of an optim-step operation; everything in it may be left out. Weight decay is decoupled and shrinks the
 * matrices, the embedding among them, but not the gains of the norms.
 */
export const optimStep: Read<NativeAdam> = (value, path) => {
  const body = fields(value ?? {}, path);
  if (body.has("muon_params")) {
    throw invalid(
      body.pathOf("muon_params"),
      "Muon is not supported by the local trainer, which steps AdamW",
    );
  }
  const adam = body.optional("adam_params", fields);
  return {
    learningRate: adam?.optional("learning_rate", real(0)) ?? DEFAULTS.learningRate,
    beta1: adam?.optional("beta1", decay) ?? DEFAULTS.beta1,
    beta2: adam?.optional("beta2", decay) ?? DEFAULTS.beta2,
    eps: adam?.optional("eps", real(0)) ?? DEFAULTS.eps,
    weightDecay: adam?.optional("weight_decay", real(0)) ?? DEFAULTS.weightDecay,
    gradClipNorm: adam?.optional("grad_clip_norm", real(0)) ?? DEFAULTS.gradClipNorm,
  };
};
