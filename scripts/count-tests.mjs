// Prints "N passed, N failed" over all tests of a CI run: `node scripts/count-tests.mjs RESULTS [FAILED_STAGE...]`, where
// RESULTS holds vitest.json (its JSON report) and ctest.txt (what ctest printed), and stages are vitest, ctest and others.
import fs from "node:fs";
import path from "node:path";

const [results = ".", ...failedStages] = process.argv.slice(2);

/** @typedef {{ passed: number, failed: number }} Count */

/** @returns {Count} a file that could not be run counts as one failure */
function countVitest() {
  const text = read("vitest.json");
  if (text === undefined) return { passed: 0, failed: 0 };
  /** @type {{ numPassedTests: number, numFailedTests: number, testResults: { status: string, assertionResults: unknown[] }[] }} */
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(text);
  const unrun = testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0);
  return { passed: numPassedTests, failed: numFailedTests + unrun.length };
}

/** @returns {Count} */
function countCtest() {
  const [, failed = 0, all = 0] =
    /(\d+) tests? failed out of (\d+)/.exec(read("ctest.txt") ?? "")?.map(Number) ?? [];
  return { passed: all - failed, failed };
}

/** @param {string} name */
function read(name) {
  const file = path.join(results, name);
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined;
}

/** @type {Record<string, Count>} */
const counts = { vitest: countVitest(), ctest: countCtest() };
for (const stage of failedStages) {
  // A stage that failed without a failed test of its own (a lint error, a build that broke) counts as one failure.
  const { passed, failed } = counts[stage] ?? { passed: 0, failed: 0 };
  counts[stage] = { passed, failed: Math.max(failed, 1) };
}
const total = (/** @type {keyof Count} */ key) =>
  Object.values(counts).reduce((sum, count) => sum + count[key], 0);
console.log(`${total("passed")} passed, ${total("failed")} failed`);
