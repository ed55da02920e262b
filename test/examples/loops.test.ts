// The ready loops as a user runs them: against a trainer that the environment names, killed and started again.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalTrainer, startLocalTrainer } from "../../src/local/index.ts";

const root = join(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "tokengrad-loops-test-"));
let trainer: LocalTrainer;
beforeAll(async () => {
  trainer = await startLocalTrainer({
    model: { layers: 2, width: 64, context: 256 },
    dataFolder: join(scratch, "trainer"),
  });
});
afterAll(async () => {
  await trainer.close();
  rmSync(scratch, { recursive: true });
});

interface Ran {
  readonly code: number | null;
  readonly output: string;
}

/** Runs an example to its end, or kills it as soon as its output has a text. */
async function run(name: string, folder: string, flags: readonly string[], killAt?: string): Promise<Ran> {
  const args = [
    "--import",
    "tsx",
    join("examples", `${name}.ts`),
    "--folder",
    join(scratch, folder),
    ...flags,
  ];
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, TOGETHER_BASE_URL: trainer.url, TOGETHER_API_KEY: trainer.apiKey },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += chunk;
      if (killAt !== undefined && output.includes(killAt)) child.kill("SIGKILL");
    });
  }
  const [code] = await once(child, "close");
  return { code, output };
}

const state = (folder: string) => JSON.parse(readFileSync(join(scratch, folder, "run.json"), "utf8"));
/** Runs a loop once in one go and once with a kill in between, and compares all their numbers. */
async function survivesKill(name: string, flags: readonly string[], killAt: string) {
  const whole = await run(name, `${name}-whole`, flags);
  expect(whole.code, whole.output).toBe(0);
  const killed = await run(name, `${name}-killed`, flags, killAt);
  expect(killed.code).toBeNull();
  const { step: stepBefore } = state(`${name}-killed`);
  const resumed = await run(name, `${name}-killed`, flags);
  expect(resumed.code, resumed.output).toBe(0);
  expect(resumed.output).toContain(`step ${stepBefore + 1}/`);
  expect(resumed.output).not.toContain(`step ${stepBefore}/`);
  const [one, other] = [state(`${name}-whole`), state(`${name}-killed`)];
  expect(other).toEqual({ ...one, checkpointId: expect.any(String) });
  return { whole, resumed, checkpointId: one.checkpointId as string };
}

let base: string;

test("SFT lowers the held-out loss, and a killed run goes on with the same numbers", async () => {
  const flags = ["--steps", "48", "--every", "8", "--rate", "4e-3"];
  const { whole, resumed, checkpointId } = await survivesKill("sft", flags, "step 19/");
  const [before, after] = whole.output.match(/\d\.\d{4}(?= before|\s*after)/g)!.map(Number);
  expect(after).toBeLessThan(before! - 2);
  expect(resumed.output.split("\n").at(-2)).toBe(whole.output.split("\n").at(-2));
  // The reference is that of the model before its first step: it was not scored again.
  expect(resumed.output.match(/^reference/gm)).toHaveLength(1);
  base = checkpointId;
}, 120_000);

test("DPO raises the held-out preference accuracy, and a killed run goes on with the same numbers", async () => {
  const flags = ["--steps", "24", "--every", "6", "--rate", "1e-3", "--from", base];
  const { whole } = await survivesKill("dpo", flags, "step 15/");
  const [, accuracy] = whole.output.match(/held-out preference accuracy: (\d\.\d{3})/)!;
  // Chance is 0.5.
  expect(Number(accuracy)).toBeGreaterThan(0.8);
}, 120_000);

test("GRPO raises the reward while it samples ahead, and a killed run goes on with the same numbers", async () => {
  const flags = ["--steps", "10", "--every", "5", "--rate", "1e-3", "--max-staleness", "1", "--from", base];
  const { whole } = await survivesKill("grpo", flags, "step 7/");
  const [first, last] = whole.output.match(/\d\.\d{4}(?= at)/g)!.map(Number);
  expect(last).toBeGreaterThan(first!);
  expect(whole.output).not.toMatch(/lost [1-9]|stale [1-9]/);
}, 120_000);

test("PPO trains twice on the same rollouts, the second time with ratios that are not 1", async () => {
  const flags = ["--loss", "ppo", "--passes", "2", "--steps", "2", "--rate", "1e-3", "--from", base];
  const { code, output } = await run("grpo", "ppo", flags);
  expect(code, output).toBe(0);
  const ratios = [...output.matchAll(/ratio (\d\.\d+)/g)].map(([, ratio]) => Number(ratio));
  expect(ratios).toHaveLength(4);
  // The sampler's log-probabilities line up with those of the trainer.
  expect(ratios[0]).toBeCloseTo(1, 3);
  expect(Math.abs(ratios[1]! - 1)).toBeGreaterThan(1e-3);
}, 60_000);

test("every loop is under 150 lines", () => {
  for (const file of readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"))) {
    const lines = readFileSync(join(root, "examples", file), "utf8").split("\n").length;
    expect(lines, file).toBeLessThan(150);
  }
});
