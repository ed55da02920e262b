// Compiled, never run: what sets of samples must hold for a loss. A line marked as an error must be one.
import type { Session } from "../../src/client/session.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { dpo, grpo, kto } from "../../src/losses/index.ts";
import { groupNormAdvantages } from "../../src/training/advantages/index.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import type { SampleSet } from "../../src/training/sample-set.ts";

declare const session: Session;
declare const engine: Engine;
declare const reference: Float32Array[];
declare const pairs: SampleSet;
declare const labelled: SampleSet<"labels">;
declare const groups: SampleSet<"old">;

// What `with` adds is known, and what `pick` picks still has it.
const known = pairs.with({ reference }).pick([0, 1]);
await computeCustomForwardBackward(session, known.samples, dpo({ type: "ipo" }), {
  engine,
  groups: known.groups,
  inputs: known.inputs,
});
const judged = labelled.with({ reference });
await computeCustomForwardBackward(session, judged.samples, kto(), { engine, inputs: judged.inputs });
// @ts-expect-error there is no reference
await computeCustomForwardBackward(session, labelled.samples, kto(), { engine, inputs: labelled.inputs });

const advantages = groupNormAdvantages([1, 0], { groups: groups.groups });
const inputs = { ...groups.inputs, advantages };
await computeCustomForwardBackward(session, groups.samples, grpo(), { engine, inputs });
// @ts-expect-error no such input has been added
export const missing = groups.inputs.advantages;
// @ts-expect-error the groups must be known
groupNormAdvantages([1, 0], {});
// @ts-expect-error a misspelt scale
groupNormAdvantages([1, 0], { groups: 2, scale: "groups" });
