// What results.md tells of losses and gradients.
import { goalTable } from "../goals.ts";
import { lossGoals } from "./goals.ts";
import type { Row } from "./rows.ts";
import type { Scaled } from "./scaling.ts";
import { firstTable, mainTable, scalingTable, spreadTable } from "./tables.ts";

export interface Results {
  readonly rows: readonly Row[];
  readonly scaled: readonly Scaled[];
  readonly rounds: number;
}

const HOW = `A workload is samples x positions; the first quarter of each sample is prompt and not trained. All contestants run the
same float32 batch on the same number of threads. Before anything is timed each answer, loss and gradients, is compared
with the \`torch\` executor's in float64: no gradient may be off by more than 2e-5 of the largest one. Then the contestants
take turns, never two at once: in each round one run to warm up, then some that count. Peers run in processes of their own
with OpenMP's defaults and time themselves; no process is started and no file is read while a run is timed.

- **fused**, **torch**: the engine's executors, as a caller sees them: \`await engine.run(loss, batch, { into })\`, from the event loop
  and back. Metrics of the loss are part of it, as is the buffer of the gradients, in full rows, which has the memory of the one before.
- **eager, list**: PyTorch, a Python loop over one tensor per sample. **eager, flat**: the trained tokens of all samples in one
  tensor. **eager, padded**: all positions as a matrix. Of flat and padded the faster is *packed*. They need not compute
  what depends on weights alone, nor spread advantages over tokens, nor (flat) put gradients into full rows.
- **compiled**: \`torch.compile\` of both packed styles, warm; *compiled* is the faster. Its first step is told apart.
- **hand-written**: C++ for one loss alone, a pass or two over each sample, vectorised for this CPU, in kept buffers.`;

export const lossDocument = ({ rows, scaled, rounds }: Results): string => `## Goals

Ratios count at 256x2048 and 512x8192. They are of medians: *a / b* is how many times as long *a* takes as *b*.

${goalTable(lossGoals(rows, scaled))}

## Times

Medians of ${rounds} rounds, ms.

${mainTable(rows)}

## Spread

Median (tenth to ninetieth percentile), ms.

${spreadTable(rows)}

## First step

ms. The engine traces and compiles a loss once, at the first of its rows: *both* is then what the first step took. Later rows
run what is there on a new batch. \`torch.compile\` compiles for each shape anew, and at its very first row loads its compiler.

${firstTable(rows)}

## Scaling

Fused GRPO, ms: median (tenth to ninetieth percentile).

${scalingTable(scaled)}

## How it was measured

${HOW}
`;
