// `tokengrad verify` and `tokengrad losses` as processes: what they print and how they end.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { LOSSES } from "../../src/losses/catalogue.ts";
import { dpo } from "../../src/losses/index.ts";
import { folder } from "../golden/cases.ts";

const root = join(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "tokengrad-verify-test-"));
afterAll(() => rmSync(scratch, { recursive: true }));

async function tokengrad(...args: string[]) {
  const child = spawn(process.execPath, [join(root, "dist/cli/main.js"), ...args], { cwd: root });
  let [output, errors] = ["", ""];
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (errors += chunk));
  const [code] = await once(child, "close");
  return { code, output, errors };
}

/** A folder of some of the cases, one of them changed. */
function folderWith(names: readonly string[], broken: string | undefined = undefined): string {
  const made = mkdtempSync(join(scratch, "cases-"));
  for (const name of names) copyFileSync(join(folder, `${name}.json`), join(made, `${name}.json`));
  if (broken !== undefined) writeFileSync(join(made, "broken.json"), broken);
  writeFileSync(join(made, "README.md"), "not a case");
  return made;
}

const NAMES = ["dpo_sigmoid--basic", "op-abs", "adv_rloo--basic"];

test.each([
  [[]],
  [["--executor", "fused"]],
  [["--executor", "torch"]],
  [["--executor", "torch", "--dtype", "float64"]],
  [["--dtype", "float64"]],
])("all is well with %j", async (flags) => {
  const result = await tokengrad("verify", folderWith(NAMES), ...flags);
  expect(result).toEqual({ code: 0, output: "3 passed, 0 failed\n", errors: "" });
});

test("every failing case has a line, and the exit code is 1", async () => {
  const path = join(folder, "dpo_sigmoid--basic.json");
  const golden = JSON.parse(readFileSync(path, "utf8"));
  golden.expected.loss += 0.5;
  const changed = await tokengrad("verify", folderWith(NAMES, JSON.stringify(golden)));
  expect(changed.output).toMatch(/^broken: loss: expected .* off by 5\.00e-1 .*\n3 passed, 1 failed\n$/);
  expect(changed).toMatchObject({ code: 1, errors: "" });
});

test.each<[string, string]>([
  ["{", "broken: expected JSON, got"],
  ["[1]", "broken: expected an object, got an array of 1"],
  ['{"format":2}', "broken: format: expected 1, got 2"],
  ['{"format":1,"kind":"lost"}', 'broken: kind: expected loss, op, advantage, got "lost"'],
  ['{"format":1,"kind":"op","params":{},"inputs":{}}', "broken: expected: expected an object"],
  [
    '{"format":1,"kind":"loss","loss":"dpo","params":{},"inputs":{"logp":[[1]],"mask":[[1,1]]},"expected":{"loss":1,"gradients":[[1]]}}',
    "broken: inputs.mask: expected rows as of inputs.logp",
  ],
  [
    '{"format":1,"kind":"loss","loss":"nope","params":{},"inputs":{"logp":[[1]],"mask":[[1]]},"expected":{"loss":1,"gradients":[[1]]}}',
    'broken: loss: expected the identifier of a ready loss, got "nope"',
  ],
  [
    '{"format":1,"kind":"loss","loss":"dpo_sigmoid","params":{},"inputs":{"logp":[[1],[1]],"mask":[[1],[1]],"pairs":[[0,1]]},"expected":{"loss":1,"gradients":[[1],[1]]}}',
    "broken: inputs.reference: expected 2 rows of full length",
  ],
])("a broken file fails and is named: %s", async (text, message) => {
  const { code, output } = await tokengrad("verify", folderWith(NAMES, text));
  expect(output).toContain(message);
  expect(output).toMatch(/\n3 passed, 1 failed\n$/);
  expect(code).toBe(1);
});

test.each<[string[], string]>([
  [[join(scratch, "none")], "expected a readable folder, got ENOENT"],
  [[scratch], "expected case files, *.json, got none"],
  [[folder, "--executor", "fused", "--dtype", "float64"], '--dtype: expected "float32" with the fused'],
  [[folder, "--executor", "xla"], "Allowed choices are fused, torch"],
])("%j is refused", async (args, message) => {
  const { code, output, errors } = await tokengrad("verify", ...args);
  expect(errors).toContain(message);
  expect({ code, output }).toEqual({ code: 1, output: "" });
});

test("the losses are listed by family, each in a few words", async () => {
  const { code, output } = await tokengrad("losses");
  expect(code).toBe(0);
  expect(output).toMatch(/^Supervised\n {2}crossEntropy +Cross-entropy\n/);
  expect(output).toMatch(/\n {2}gspoToken +GSPO-token \(the same paper\)\n/);
  expect(output.match(/^ {2}\w+ +\S/gm)).toHaveLength(Object.keys(LOSSES).length);
});

test("one loss is shown with formula, options, metrics and program", async () => {
  const { code, output } = await tokengrad("losses", "dpo");
  expect(code).toBe(0);
  expect(output).toContain("-log sigmoid(beta (s_chosen - s_rejected))");
  expect(output).toMatch(/\| `beta` \| `number` \| 0\.1 \|/);
  expect(output).toContain("| `accuracy` |");
  expect(output).toContain(String(dpo()));
  expect((await tokengrad("losses", "dr_grpo")).output).toContain("loss dr_grpo(");
});

test("a loss that nobody knows is refused with the nearest that there is", async () => {
  const { code, errors } = await tokengrad("losses", "dpoo");
  expect(errors).toContain("did you mean dpo?");
  expect(code).toBe(1);
});
