// The ready losses by family.
import type { Loss } from "../loss/define.ts";
import { klCov } from "./covariance.ts";
import { iwOpd, opd } from "./distillation.ts";
import { bnpo, dapo, drGrpo, grpo, gspo, gspoToken, luspo } from "./group-relative.ts";
import { entropyProxy, klPenalty } from "./penalties.ts";
import { cispo, dro, importanceSampling, ppo, reinforce } from "./policy-gradient.ts";
import { dpo, xpo } from "./preference.ts";
import { cpo, orpo, simpo, tpo } from "./reference-free.ts";
import { a2po, nashMd } from "./regression.ts";
import { gmpo, rloo, vespo } from "./sequence-policy.ts";
import { crossEntropy, dft, regularizedSft, unlikelihood } from "./supervised.ts";
import { dppo, sapo } from "./trust-region.ts";
import { bco, kto } from "./unpaired.ts";

/** Options of the losses that have some which must be given. */
export const REQUIRED = {
  drGrpo: { reduction: { type: "fixed_horizon", horizon: 1024 } },
} as const;

/** Each loss with its default options, or with those that must be given. */
export const FAMILIES: Readonly<Record<string, Readonly<Record<string, () => Loss>>>> = {
  Supervised: { crossEntropy, regularizedSft, dft, unlikelihood },
  Penalties: { klPenalty, entropyProxy },
  "Preference pairs with a reference": { dpo, xpo },
  "Preference pairs and triples without a reference": { simpo, cpo, orpo, tpo },
  "Labelled samples": { kto, bco },
  "Policy gradients, token by token": {
    reinforce,
    importanceSampling,
    ppo,
    cispo,
    dro,
    dppo,
    sapo,
    klCov,
  },
  "Policy gradients over groups of completions": {
    grpo,
    bnpo,
    drGrpo: () => drGrpo(REQUIRED.drGrpo),
    dapo,
    luspo,
    gspo,
    gspoToken,
  },
  "Policy gradients over whole sequences": { rloo, gmpo, vespo },
  "Regression and games": { a2po, nashMd },
  Distillation: { opd, iwOpd },
};

/** The losses by name. */
export const LOSSES: Readonly<Record<string, () => Loss>> = Object.assign({}, ...Object.values(FAMILIES));
