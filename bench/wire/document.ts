// What results.md tells of the wire.
import { goalTable } from "../goals.ts";
import type { Sized } from "../scaling.ts";
import type { StageName } from "./contestants.ts";
import { wireGoals } from "./goals.ts";
import type { Row } from "./measure.ts";
import { scalingTable, stageTable } from "./tables.ts";

const HOW = `Each stage takes a whole batch from arrays to text or back. Before anything is timed, what each contestant gives is compared
number by number: texts are parsed, and read as the type that was written. Then they take turns, never two at once. A turn
begins with a run that does not count.

- **gradients to text**: those of GRPO, a quarter of them the zeros of prompts, as \`[{"data":[…]},…]\`. **ids to text**: token ids,
  in the same way. **result to log-probabilities**: the result of a forward pass, in shortest float32 text, to float32.
- **tokengrad**: \`src/wire\`, on all threads, from typed arrays to buffers and from parts of 64 KiB, one in each turn of the event loop,
  to one packed array.
- **JSON**: \`JSON.stringify\` of plain arrays to a buffer, and \`JSON.parse\` to float32 arrays.
- **json**, **orjson**: in Python, one thread; from numpy's rows (\`json\` by way of \`tolist\`) to bytes, and from bytes to one float32 array.

*ns a value* counts the numbers that are more than placeholders: the gradients and log-probabilities of trained positions, and
all ids. *CPU* is what all threads of the process take together, however many they are. *event loop held* is the longest time
of a run in which nothing else could run on it: without the time in which other threads and programs had the CPU, and (with it).
Medians of five runs.`;

export const wireDocument = (
  rows: readonly Row[],
  scaled: ReadonlyMap<StageName, readonly Sized[]>,
): string => `## Goals

At 256x2048 and 512x8192, but for the event loop, which is to be free at any size. *a / b* is how many times as long *a* takes as *b*.

${goalTable(wireGoals(rows, scaled))}

## Times

Medians, ms; of tokengrad also tenth to ninetieth percentile.

${stageTable(rows)}

## Scaling

Medians, ms.

${scalingTable(scaled)}

## How it was measured

${HOW}
`;
