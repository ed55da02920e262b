// Compiled, never run: what the types of ready losses accept and refuse. A line marked as an error must be one.
import type { Batch } from "../../src/engine/batch.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { combine, crossEntropy, dpo, drGrpo, grpo, klPenalty, ppo } from "../../src/losses/index.ts";

declare const engine: Engine;
declare const batch: Batch;

// A penalty has its parameter and metric where it was asked for.
const plain = await engine.run(grpo(), batch);
const penalised = await engine.run(grpo({ kl: {} }), batch, { params: { klCoef: 1 } });
export const numbers: number[] = [
  plain.metrics.ratioMean,
  plain.metrics.clipFractionLow,
  penalised.metrics.ratioMean,
  penalised.metrics.kl,
];
// @ts-expect-error there is no penalty
plain.metrics.kl;

// Options are checked by name.
// @ts-expect-error a misspelt bound
grpo({ clipLo: 1 });
// @ts-expect-error a misspelt option of the penalty
grpo({ kl: { coeff: 1 } });
// @ts-expect-error the horizon must be given
drGrpo();
// @ts-expect-error a reduction that nobody knows
crossEntropy({ reduction: "mean" });
// @ts-expect-error a horizon belongs to another reduction
crossEntropy({ reduction: { type: "constant", horizon: 3 } });

// Parameters too.
await engine.run(dpo(), batch, { params: { beta: 2 } });
const reduction = { type: "constant", normalizer: 3 } as const;
await engine.run(crossEntropy({ reduction }), batch, { params: { normalizer: 2 } });
// @ts-expect-error no parameter of PPO
await engine.run(ppo(), batch, { params: { beta: 1 } });

// Sums have what their parts have, behind the names of these.
const sum = combine({ preference: dpo(), kl: klPenalty() }, { kl: 0.5 });
const summed = await engine.run(sum, batch, { params: { "preference.beta": 1, "kl.weight": 2 } });
numbers.push(summed.metrics.preference, summed.metrics["preference.accuracy"], summed.metrics["kl.kl"]);
// @ts-expect-error no such metric
summed.metrics["kl.accuracy"];
// @ts-expect-error no such parameter
await engine.run(sum, batch, { params: { "preference.betta": 1 } });
// @ts-expect-error no such part
combine({ preference: dpo() }, { kl: 0.5 });
