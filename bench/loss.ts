// Measures losses and gradients against PyTorch and hand-written C++: `npm run bench`, see its --help.
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { Command, Option } from "commander";
import { createBatch } from "../src/engine/batch.ts";
import { createEngine } from "../src/engine/engine.ts";
import type { EngineOptions } from "../src/engine/options.ts";
import type { Loss } from "../src/loss/define.ts";
import { batchOptions, CASES, type Case, type CaseName } from "./cases.ts";
import {
  type Contestant,
  engineContestant,
  FUSED,
  HANDWRITTEN,
  handwrittenContestants,
  pythonContestants,
  TORCH,
} from "./contestants.ts";
import { goalTable } from "./goals.ts";
import { type Effort, type Exact, measure } from "./measure.ts";
import { Peer } from "./peer.ts";
import { type PeerDevice, startHandwritten, startPython } from "./peers.ts";
import { idleness, machine, versions, writeResults } from "./results.ts";
import type { Row } from "./rows.ts";
import { measureScaling } from "./scaling.ts";
import { timed } from "./statistics.ts";
import { firstTable, mainTable, scalingTable } from "./table.ts";
import { makeWorkload, WORKLOADS, writeWorkload } from "./workload.ts";

const NAMES = Object.keys(CASES) as CaseName[];

const options = new Command("bench")
  .description(
    "Measures losses and gradients: the engine's executors, PyTorch (TOKENGRAD_BENCH_PYTHON, else python3 on PATH; it " +
      "needs torch and numpy) and hand-written C++. Answers are compared before anything is timed.",
  )
  .option("--quick", "the two smaller workloads, fewer rounds, smaller batches to scale to", false)
  .addOption(new Option("--losses <names...>", "only these losses").choices(NAMES))
  .addOption(new Option("--workloads <names...>", "only these workloads").choices(WORKLOADS))
  .option("--threads <count>", "threads of everyone; default: the CPUs that this process may use", Number)
  .addOption(
    new Option(
      "--device <device>",
      "where the torch executor and PyTorch compute; fused and hand-written stay on the CPU",
    )
      .choices(["cpu", "cuda"])
      .default("cpu"),
  )
  .option("--write", "write what was measured into bench/results.md", false)
  .parse()
  .opts<{
    quick: boolean;
    losses?: CaseName[];
    workloads?: (typeof WORKLOADS)[number][];
    threads?: number;
    device: PeerDevice;
    write: boolean;
  }>();

const losses = options.losses ?? NAMES;
const workloads = options.workloads ?? (options.quick ? WORKLOADS.slice(0, 2) : WORKLOADS);
const rounds = options.quick ? 5 : 9;
const effort: Record<(typeof WORKLOADS)[number], Effort> = {
  "64x512": { rounds, runs: 60 },
  "256x2048": { rounds, runs: 30 },
  "512x8192": { rounds, runs: 8 },
};

/** What the torch executor answers in float64. */
async function exactly(
  onTorch: EngineOptions,
  loss: Loss,
  given: Parameters<typeof createBatch>[0],
): Promise<Exact> {
  using engine = await createEngine(onTorch);
  const batch = await createBatch({ ...given, precision: "float64" });
  const { loss: value, gradients } = await engine.run(loss, batch, { dtype: "float64" });
  return { loss: value, gradients: new Float64Array(gradients.buffer) };
}

async function infoOf(options: EngineOptions) {
  using engine = await createEngine(options);
  return engine.info;
}

/** Those that are asked to run the losses. */
class Field {
  contestants: readonly Contestant[];
  readonly peers: Peer[] = [];
  /** What was left out, and why. */
  readonly left: string[] = [];

  constructor(engines: readonly Contestant[]) {
    this.contestants = engines;
  }

  /** Takes a peer in, or tells why there is none. */
  invite(name: string, started: Peer | string, as: (peer: Peer) => readonly Contestant[]): void {
    if (started instanceof Peer) {
      this.peers.push(started);
      this.contestants = [...this.contestants, ...as(started)];
    } else {
      this.leaveOut(name, started);
    }
  }

  leaveOut(title: string, reason: string): void {
    this.left.push(`${title}: ${reason}`);
    console.log(`left out: ${title}: ${reason}`);
    this.contestants = this.contestants.filter((contestant) => contestant.title !== title);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of this.peers) await peer[Symbol.asyncDispose]();
  }
}

/** Measures each loss on each workload, in the folder that peers read batches from. */
async function measureAll(field: Field, onTorch: EngineOptions, folder: string): Promise<Row[]> {
  const rows: Row[] = [];
  const traced = new Map<CaseName, Loss>();
  for (const workload of workloads) {
    const arrays = makeWorkload(workload);
    await writeWorkload(folder, arrays);
    for (const peer of field.peers) await peer.ask(`load ${workload}`);
    for (const name of losses) {
      const entry: Case = CASES[name];
      let trace: number | undefined;
      let loss = traced.get(name);
      if (loss === undefined) {
        [loss, trace] = await timed(entry.define);
        traced.set(name, loss);
      }
      const given = batchOptions(entry, arrays);
      const batch = await createBatch(given);
      const { trainedTokens } = batch;
      const exact = await exactly(onTorch, loss, given);
      const task = { name, loss, workload, batch };
      const measured = await measure(field.contestants, task, exact, effort[workload], ({ title }, reason) =>
        field.leaveOut(title, reason),
      );
      rows.push({ loss: name, workload, trainedTokens, trace, ...measured });
    }
  }
  return rows;
}

async function bench(folder: string): Promise<void> {
  const { threads: asked, device } = options;
  const onTorch = { device, threads: asked, executor: "torch" } as const;
  const onFused = { device: "cpu", threads: asked, executor: "fused" } as const;
  // The GPU first: libtorch decides at its first run whether it has one.
  const { threads, libtorch, device: found } = await infoOf(onTorch);
  await using field = new Field([engineContestant(FUSED, onFused), engineContestant(TORCH, onTorch)]);
  field.invite("PyTorch", await startPython({ folder, threads }, device), pythonContestants);
  field.invite(HANDWRITTEN, await startHandwritten({ folder, threads }), handwrittenContestants);
  const { left } = field;
  const load = loadavg()[0]!;
  const setting = { threads, libtorch, peers: field.peers.map(({ version }) => version), left, rounds, load };
  console.log(
    `${machine()}; ${threads} threads; torch on ${found}; ${idleness(load)}\n${versions(setting)}\n`,
  );

  const rows = await measureAll(field, onTorch, folder);
  using fused = await createEngine(onFused);
  const scaled = await measureScaling(fused, options.quick ? 2 ** 21 : 2 ** 24);
  const tables = [mainTable(rows), firstTable(rows), scalingTable(scaled), goalTable(rows, scaled)];
  console.log(tables.join("\n\n"));
  if (options.write) await writeResults({ ...setting, rows, scaled });
}

const folder = await mkdtemp(join(tmpdir(), "tokengrad-bench-"));
try {
  await bench(folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
