// `tokengrad verify`: runs the golden cases of a folder and tells which fail.
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Command, Option } from "commander";
import type { Precision } from "../engine/binding.ts";
import { createEngine, type Engine } from "../engine/engine.ts";
import { InputError } from "../errors.ts";
import { parseCase } from "../verify/cases.ts";
import { verifyCase } from "../verify/verify.ts";

interface VerifyFlags {
  readonly executor?: "fused" | "torch";
  readonly dtype?: Precision;
}

/** Exit code of a run in which a case failed. */
const FAILED = 1;

export const verifyCommand = (): Command =>
  new Command("verify")
    .description("run the golden cases of a folder and compare with what PyTorch computed")
    .argument("<folder>", "folder of case files, *.json")
    .addOption(
      new Option("--executor <name>", "what computes (default: fused in float32, torch in float64)").choices([
        "fused",
        "torch",
      ]),
    )
    .addOption(
      new Option("--dtype <name>", "precision of the values per token (default: float32)").choices([
        "float32",
        "float64",
      ]),
    )
    .action(async (folder: string, flags: VerifyFlags) => {
      if (!(await verify(folder, flags))) process.exitCode = FAILED;
    });

async function caseFiles(folder: string): Promise<string[]> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    throw new InputError(folder, `expected a readable folder, got ${(error as Error).message}`);
  }
  const files = names.filter((name) => name.endsWith(".json")).sort();
  if (files.length === 0) throw new InputError(folder, "expected case files, *.json, got none");
  return files.map((name) => join(folder, name));
}

/** What is wrong with a case, on one line; nothing if it passes. */
async function problemOf(file: string, engine: Engine, precision: Precision): Promise<string | undefined> {
  try {
    const found = await verifyCase(parseCase(await readFile(file, "utf8")), engine, precision);
    return found.length === 0 ? undefined : found.join("; ");
  } catch (error) {
    return (error as Error).message.replaceAll("\n", " ");
  }
}

/** Runs all cases of a folder; gives whether every one passed. */
async function verify(folder: string, { executor, dtype = "float32" }: VerifyFlags): Promise<boolean> {
  if (executor === "fused" && dtype === "float64") {
    throw new InputError("--dtype", 'expected "float32" with the fused executor, got "float64"');
  }
  const files = await caseFiles(folder);
  using engine = await createEngine({ device: "cpu", executor });
  let failed = 0;
  for (const file of files) {
    const problem = await problemOf(file, engine, dtype);
    if (problem === undefined) continue;
    failed++;
    process.stdout.write(`${basename(file, ".json")}: ${problem}\n`);
  }
  process.stdout.write(`${files.length - failed} passed, ${failed} failed\n`);
  return failed === 0;
}
