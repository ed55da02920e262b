// Measures losses and gradients against PyTorch and hand-written C++: `npm run bench`, see its --help.
import { loadavg } from "node:os";
import { Command, Option } from "commander";
import { createBatch } from "../../src/engine/batch.ts";
import { createEngine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/options.ts";
import type { Loss } from "../../src/loss/define.ts";
import { batchOptions, CASES, type Case, type CaseName } from "../cases.ts";
import { exactly } from "../exact.ts";
import { inFolder } from "../folder.ts";
import { goalTable } from "../goals.ts";
import { idleness, machine } from "../machine.ts";
import { lossesOption, threadsOption, workloadsOption, writeOption } from "../options.ts";
import { Peer } from "../peer.ts";
import { versions, writePart } from "../results.ts";
import { timed } from "../statistics.ts";
import { makeWorkload, WORKLOADS, writeWorkload } from "../workload.ts";
import {
  type Contestant,
  engineContestant,
  FUSED,
  HANDWRITTEN,
  handwrittenContestants,
  pythonContestants,
  TORCH,
} from "./contestants.ts";
import { lossDocument } from "./document.ts";
import { lossGoals } from "./goals.ts";
import { type Effort, measure } from "./measure.ts";
import { type PeerDevice, startHandwritten, startPyTorch } from "./peers.ts";
import type { Row } from "./rows.ts";
import { measureScaling } from "./scaling.ts";
import { firstTable, mainTable, scalingTable } from "./tables.ts";

interface Options {
  readonly quick: boolean;
  readonly losses?: CaseName[];
  readonly workloads?: (typeof WORKLOADS)[number][];
  readonly threads?: number;
  readonly device: PeerDevice;
  readonly write: boolean;
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

/** What to measure, and for how long. */
interface Plan {
  readonly losses: readonly CaseName[];
  readonly workloads: readonly (typeof WORKLOADS)[number][];
  readonly effort: Readonly<Record<(typeof WORKLOADS)[number], Effort>>;
}

/** Measures each loss on each workload, in the folder that peers read batches from. */
async function measureAll(field: Field, plan: Plan, onTorch: EngineOptions, folder: string): Promise<Row[]> {
  const rows: Row[] = [];
  const traced = new Map<CaseName, Loss>();
  for (const workload of plan.workloads) {
    const arrays = makeWorkload(workload);
    await writeWorkload(folder, arrays);
    for (const peer of field.peers) await peer.ask(`load ${workload}`);
    for (const name of plan.losses) {
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
      const effort = plan.effort[workload];
      const measured = await measure(field.contestants, task, exact, effort, ({ title }, reason) =>
        field.leaveOut(title, reason),
      );
      rows.push({ loss: name, workload, trainedTokens, trace, ...measured });
    }
  }
  return rows;
}

async function infoOf(options: EngineOptions) {
  using engine = await createEngine(options);
  return engine.info;
}

async function bench(options: Options, folder: string): Promise<void> {
  const { quick, threads: asked, device } = options;
  const onTorch = { device, threads: asked, executor: "torch" } as const;
  const onFused = { device: "cpu", threads: asked, executor: "fused" } as const;
  // The GPU first: libtorch decides at its first run whether it has one.
  const { threads, libtorch, device: found } = await infoOf(onTorch);
  await using field = new Field([engineContestant(FUSED, onFused), engineContestant(TORCH, onTorch)]);
  field.invite("PyTorch", await startPyTorch({ folder, threads }, device), pythonContestants);
  field.invite(HANDWRITTEN, await startHandwritten({ folder, threads }), handwrittenContestants);
  const { left } = field;
  const load = loadavg()[0]!;
  const ran = [`libtorch ${libtorch}`, ...field.peers.map(({ version }) => version)];
  const setting = { threads, versions: ran, left, load };
  console.log(
    `${machine()}; ${threads} threads; torch on ${found}; ${idleness(load)}\n${versions(setting)}\n`,
  );

  const rounds = quick ? 5 : 9;
  const plan: Plan = {
    losses: options.losses ?? (Object.keys(CASES) as CaseName[]),
    workloads: options.workloads ?? (quick ? WORKLOADS.slice(0, 2) : WORKLOADS),
    effort: {
      "64x512": { rounds, runs: 60 },
      "256x2048": { rounds, runs: 30 },
      "512x8192": { rounds, runs: 8 },
    },
  };
  const rows = await measureAll(field, plan, onTorch, folder);
  using fused = await createEngine(onFused);
  const scaled = await measureScaling(fused, quick ? 2 ** 21 : 2 ** 24);
  const goals = goalTable(lossGoals(rows, scaled));
  console.log([mainTable(rows), firstTable(rows), scalingTable(scaled), goals].join("\n\n"));
  if (options.write) {
    writePart("Losses and gradients, measured", setting, lossDocument({ rows, scaled, rounds }));
  }
}

export const lossCommand = new Command("loss")
  .description(
    "losses and gradients: the engine's executors, PyTorch (TOKENGRAD_BENCH_PYTHON, else python3 on PATH; it needs " +
      "torch and numpy) and hand-written C++",
  )
  .option("--quick", "the two smaller workloads, fewer rounds, smaller batches to scale to", false)
  .addOption(lossesOption())
  .addOption(workloadsOption())
  .addOption(threadsOption())
  .addOption(
    new Option(
      "--device <device>",
      "where the torch executor and PyTorch compute; fused and hand-written stay on the CPU",
    )
      .choices(["cpu", "cuda"])
      .default("cpu"),
  )
  .addOption(writeOption())
  .action((options: Options) => inFolder((folder) => bench(options, folder)));
