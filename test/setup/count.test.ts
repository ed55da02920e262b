// The closing line of a CI run counts every failure once, and never hides one.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PROJECT, temporaryFolder, writeFiles } from "./checkout.ts";

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

function count(files: Record<string, string>, ...failedStages: string[]): string {
  writeFiles(folder, files);
  const args = [path.join(PROJECT, "scripts/count-tests.mjs"), folder, ...failedStages];
  return spawnSync(process.execPath, args, { encoding: "utf8" }).stdout;
}

const vitest = (passed: number, failed: number, unrun = 0) =>
  JSON.stringify({
    numPassedTests: passed,
    numFailedTests: failed,
    testResults: [
      { status: failed > 0 ? "failed" : "passed", assertionResults: [{}] },
      ...Array(unrun).fill({ status: "failed", assertionResults: [] }),
    ],
  });
const ctest = (failed: number, all: number) => `99% tests passed, ${failed} tests failed out of ${all}\n`;

it.each([
  ["all passed", { "vitest.json": vitest(10, 0), "ctest.txt": ctest(0, 3) }, [], "13 passed, 0 failed\n"],
  [
    "tests failed",
    { "vitest.json": vitest(8, 2), "ctest.txt": ctest(1, 3) },
    ["vitest", "ctest"],
    "10 passed, 3 failed\n",
  ],
  [
    "a file could not be run",
    { "vitest.json": vitest(8, 0, 1), "ctest.txt": ctest(0, 3) },
    ["vitest"],
    "11 passed, 1 failed\n",
  ],
  [
    "a check failed",
    { "vitest.json": vitest(10, 0), "ctest.txt": ctest(0, 3) },
    ["checks"],
    "13 passed, 1 failed\n",
  ],
  ["set-up failed", {}, ["vitest", "checks", "ctest"], "0 passed, 3 failed\n"],
])("%s", (_case, files, failedStages, line) => {
  expect(count(files, ...failedStages)).toBe(line);
});
