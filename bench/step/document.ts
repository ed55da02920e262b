// What results.md tells of whole steps.
import { goalTable } from "../goals.ts";
import { stepGoals } from "./goals.ts";
import type { Row } from "./rows.ts";
import { ratioTable, stepTable } from "./tables.ts";

const HOW = `A step is what a training loop does: a forward pass, the loss and its gradients, a custom pass, an optim-step. It goes over
HTTP on loopback to a trainer in a process of its own that computes nothing and answers at once, so the time is the
client's. Each contestant runs in a process of its own, on the same batch: the first quarter of each sample is prompt,
with weight 0. Samples, with their tokens and weights, travel in both passes, as the API wants it. Results over 0.5 MiB are
handed out through the payload channel.

Before anything is timed, each contestant makes a step whose body is looked at when it has arrived: samples must be those
of the batch, and no gradient may be off from the \`torch\` executor's in float64 by more than 2e-5 of the largest one (and, in
bfloat16, by its rounding). Then they take turns, never two at once; the first step of a turn does not count where it
is not the only one. Times are of the contestants' own clocks.

- **float32**, **bfloat16**: \`computeCustomForwardBackward\` and \`session.optimStep\`, with the memory of gradients used again.
- **vendor's client**: the package \`together\`: \`trainer.forward\`, a loss over a list of tensors, \`backward\`,
  \`trainer.custom_forward_backward\`, \`trainer.optim_step\`.
- **guide's loop**: the same loop over tensors with \`http.client\`, lists and the standard library's \`json\`.
- **best Python**: all positions in one tensor, numpy's rows, \`orjson\`, \`http.client\`, one body a pass; *compiled* with \`torch.compile\`.
  Where both ran, ratios are to the faster one.

Memory is resident memory: *peak* of the process, *growth* from its state before the first step, with the batch loaded and
the session open. Node's processes hold some 35 MiB for running TypeScript. *bytes a gradient* counts trained positions, with
the comma. *event loop held* is the longest time of a step in which nothing else could run on it: without the time in which other
threads and programs had the CPU, and (with it). Medians of five steps that are not among those timed.`;

export const stepDocument = (rows: readonly Row[]): string => `## Goals

*a / b* is what the value of *a* is to that of *b*; times are medians. At 256x2048 and 512x8192 unless the batch is called small.

${goalTable(stepGoals(rows))}

## Times and memory

Medians, ms; of the whole step also tenth to ninetieth percentile.

${stepTable(rows)}

## Ratios

${ratioTable(rows)}

## How it was measured

${HOW}
`;
