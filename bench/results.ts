// Writes what was measured, where and how into results.md.
import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { arch, availableParallelism, cpus, platform, totalmem } from "node:os";
import { goalTable } from "./goals.ts";
import type { Row } from "./rows.ts";
import type { Scaled } from "./scaling.ts";
import { firstTable, mainTable, scalingTable, spreadTable } from "./table.ts";

export interface Results {
  readonly rows: readonly Row[];
  readonly scaled: readonly Scaled[];
  /** Threads of everyone. */
  readonly threads: number;
  readonly libtorch: string;
  /** What each peer says it is. */
  readonly peers: readonly string[];
  /** What was left out, and why. */
  readonly left: readonly string[];
  readonly rounds: number;
  /** What else the machine did when the benchmark began: the system's load average of the minute before. */
  readonly load: number;
}

/** The widest SIMD instructions of this CPU, as far as the system tells. */
function simd(): string {
  if (arch() === "arm64") return "NEON";
  if (!existsSync("/proc/cpuinfo")) return "SIMD unknown";
  const flags = /^flags\s*:(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1]?.split(" ") ?? [];
  return flags.includes("avx512f") ? "AVX-512" : flags.includes("avx2") ? "AVX2" : "neither AVX2 nor AVX-512";
}

export const machine = (): string =>
  `${cpus()[0]?.model.trim() ?? "unknown CPU"}, ${availableParallelism()} CPUs, ${simd()}, ` +
  `${Math.round(totalmem() / 2 ** 30)} GiB, ${platform()}`;

export const versions = ({ libtorch, peers }: Pick<Results, "libtorch" | "peers">): string =>
  [`Node ${process.version}`, `libtorch ${libtorch}`, ...peers].join(", ");

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

/** How busy the machine was, from its load average. */
export const idleness = (load: number): string =>
  `load ${load.toFixed(2)} when it began${load < 0.5 ? "" : ": other programs ran, which makes threads that wait for one another late, so the ratios are off"}`;

/** The whole document. */
function document(results: Results): string {
  const { rows, scaled, threads, left, rounds, load } = results;
  const command = ["npm run bench", ...(process.argv.length > 2 ? ["--", ...process.argv.slice(2)] : [])];
  return `# Losses and gradients, measured

${new Date().toISOString().slice(0, 10)}, \`${command.join(" ")}\`. ${machine()}; ${threads} threads for everyone;
${idleness(load)}.
${versions(results)}.
${left.map((reason) => `\nLeft out: ${reason}.\n`).join("")}
## Goals

Ratios count at 256x2048 and 512x8192. They are of medians: *a / b* is how many times as long *a* takes as *b*.

${goalTable(rows, scaled)}

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
}

export const writeResults = (results: Results): Promise<void> =>
  writeFile(new URL("results.md", import.meta.url), document(results));
