// Measures whole custom-loss steps against the vendor's client and Python: `npm run bench -- step`, see its --help.
import { loadavg } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { createEngine } from "../../src/engine/engine.ts";
import { makeTokens, OUTPUT, writeBatch } from "../batch.ts";
import { batchOptions, CASES, type Case, type CaseName } from "../cases.ts";
import { startNode } from "../child.ts";
import { exactly } from "../exact.ts";
import { inFolder } from "../folder.ts";
import { goalTable } from "../goals.ts";
import { idleness, machine } from "../machine.ts";
import { lossesOption, threadsOption, workloadsOption, writeOption } from "../options.ts";
import { writePart } from "../results.ts";
import { makeWorkload, WORKLOADS } from "../workload.ts";
import { type Contestant, contestants } from "./contestants.ts";
import { stepDocument } from "./document.ts";
import { stepGoals } from "./goals.ts";
import { type Effort, measureSteps } from "./measure.ts";
import { type Row, versionsOf } from "./rows.ts";
import { ratioTable, stepTable } from "./tables.ts";

interface Options {
  readonly quick: boolean;
  readonly losses?: CaseName[];
  readonly workloads?: (typeof WORKLOADS)[number][];
  readonly threads?: number;
  readonly compile: boolean;
  readonly inline: boolean;
  readonly write: boolean;
}

async function engineInfo(threads: number | undefined) {
  using engine = await createEngine({ device: "cpu", threads });
  return engine.info;
}

async function bench(options: Options, folder: string): Promise<void> {
  const { quick, compile, inline, losses = ["grpo"] } = options;
  const workloads = options.workloads ?? (quick ? WORKLOADS.slice(0, 2) : WORKLOADS);
  const effort: Effort = quick ? { rounds: 3, turn: 1000 } : { rounds: 5, turn: 3000 };
  const { threads, libtorch } = await engineInfo(options.threads);
  const load = loadavg()[0]!;
  console.log(`${machine()}; ${threads} threads; ${idleness(load)}\n`);

  const left: string[] = [];
  let field: readonly Contestant[] = contestants(compile);
  const leaveOut = ({ title }: Contestant, reason: string) => {
    left.push(`${title}: ${reason}`);
    console.log(`left out: ${title}: ${reason}`);
    field = field.filter((contestant) => contestant.title !== title);
  };
  const rows: Row[] = [];
  for (const name of workloads) {
    const workload = makeWorkload(name);
    const tokens = makeTokens(name);
    await writeBatch(folder, workload, tokens);
    const rest = [join(name, OUTPUT), ...(inline ? ["inline"] : [])];
    await using trainer = await startNode("step/instant-server.ts", { folder, threads, rest });
    const { url = "" } = await trainer.ask<{ url: string }>("url");
    for (const loss of losses) {
      const entry: Case = CASES[loss];
      const exact = await exactly({ device: "cpu", threads }, entry.define(), batchOptions(entry, workload));
      const task = { loss, workload: name, url, folder, threads };
      const ground = { trainer, workload, tokens };
      rows.push({
        loss,
        workload: name,
        measured: await measureSteps(field, task, ground, exact, effort, leaveOut),
      });
    }
  }
  console.log([stepTable(rows), ratioTable(rows), goalTable(stepGoals(rows))].join("\n\n"));
  if (options.write) {
    const versions = [`libtorch ${libtorch}`, ...versionsOf(rows)];
    writePart("Whole steps, measured", { threads, versions, left, load }, stepDocument(rows));
  }
}

export const stepCommand = new Command("step")
  .description(
    "whole steps over HTTP on loopback, to a trainer that answers at once: tokengrad, the vendor's client and Python " +
      "with care (TOKENGRAD_BENCH_PYTHON, else python3 on PATH; torch and numpy, together 3.1.1, orjson)",
  )
  .option("--quick", "the two smaller workloads, fewer and shorter rounds", false)
  .addOption(lossesOption())
  .addOption(workloadsOption())
  .addOption(threadsOption())
  .option("--compile", "best Python with torch.compile too", false)
  .option("--inline", "results come in the answers, never through the payload channel", false)
  .addOption(writeOption())
  .action((options: Options) => inFolder((folder) => bench(options, folder)));
