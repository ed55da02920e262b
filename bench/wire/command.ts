// Measures numbers to text and back against JavaScript's JSON and Python: `npm run bench -- wire`, see its --help.
import { loadavg } from "node:os";
import { Command } from "commander";
import { createEngine } from "../../src/engine/engine.ts";
import { inFolder } from "../folder.ts";
import { goalTable } from "../goals.ts";
import { idleness, machine } from "../machine.ts";
import { workloadsOption, writeOption } from "../options.ts";
import { Peer } from "../peer.ts";
import { startPython } from "../python.ts";
import { writePart } from "../results.ts";
import { WORKLOADS } from "../workload.ts";
import { wireDocument } from "./document.ts";
import { wireGoals } from "./goals.ts";
import { type Effort, measureStage, type Row } from "./measure.ts";
import { measureScaling } from "./scaling.ts";
import { stagesOf } from "./stages.ts";
import { scalingTable, stageTable } from "./tables.ts";

interface Options {
  readonly quick: boolean;
  readonly workloads?: (typeof WORKLOADS)[number][];
  readonly write: boolean;
}

/** The CPUs that this process may use: as many threads has the wire. */
async function availableThreads(): Promise<number> {
  using engine = await createEngine({ device: "cpu" });
  return engine.info.threads;
}

async function bench(options: Options, folder: string): Promise<void> {
  const { quick, write } = options;
  const workloads = options.workloads ?? (quick ? WORKLOADS.slice(0, 2) : WORKLOADS);
  const effort: Effort = quick ? { rounds: 3, turn: 100 } : { rounds: 7, turn: 300 };
  const threads = await availableThreads();
  const load = loadavg()[0]!;
  console.log(`${machine()}; ${threads} threads; ${idleness(load)}\n`);

  const left: string[] = [];
  const leaveOut = (title: string, reason: string) => {
    if (left.includes(`${title}: ${reason}`)) return;
    left.push(`${title}: ${reason}`);
    console.log(`left out: ${title}: ${reason}`);
  };
  const started = await startPython("wire.py", { folder, threads });
  await using python = started instanceof Peer ? started : undefined;
  if (!(started instanceof Peer)) leaveOut("Python", started);
  const rows: Row[] = [];
  for (const workload of workloads) {
    for (const stage of await stagesOf(workload, folder, python)) {
      rows.push(await measureStage(stage, effort, ({ title }, reason) => leaveOut(title, reason)));
    }
  }
  const scaled = await measureScaling(quick ? 2 ** 21 : 2 ** 24);
  const goals = goalTable(wireGoals(rows, scaled));
  console.log([stageTable(rows), scalingTable(scaled), goals].join("\n\n"));
  if (write) {
    const versions = python === undefined ? [] : [python.version];
    writePart("The wire, measured", { threads, versions, left, load }, wireDocument(rows, scaled));
  }
}

export const wireCommand = new Command("wire")
  .description(
    "numbers to text and back, stage by stage, on all CPUs that this process may use: JavaScript's JSON, Python's json " +
      "and orjson (TOKENGRAD_BENCH_PYTHON, else python3 on PATH; numpy, orjson)",
  )
  .option(
    "--quick",
    "the two smaller workloads, fewer and shorter rounds, smaller batches to scale to",
    false,
  )
  .addOption(workloadsOption())
  .addOption(writeOption())
  .action((options: Options) => inFolder((folder) => bench(options, folder)));
