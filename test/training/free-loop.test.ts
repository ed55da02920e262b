// Whole custom steps against a trainer in another process: however large they are, the event loop stays free.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { holdOf } from "../../bench/hold.ts";
import { Client } from "../../src/client/client.ts";
import type { Gradients } from "../../src/engine/gradients.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import { useEngine } from "../engine/helpers.ts";

const held = useEngine();
/** Of the step's own making: other tests run beside. Parsed as JSON, results hold it for hundreds. @unit milliseconds */
const LONGEST_HOLD = 5;
/** Where there are so many objects of the caller's, V8's collections take longer than all else. @unit milliseconds */
const LONGEST_HOLD_OF_MANY = 15;
/** In some steps the loop waits for V8's threads, which wait for a CPU; what our own code holds it for, it does in all. */
const STEPS = 8;

const drift = defineLoss({
  inputs: { reference: perToken() },
  loss: ({ logprobs, reference }) => logprobs.sub(reference).square().mean("sample").mean(),
});

async function connect(rows: number, length: number): Promise<Client> {
  const script = fileURLToPath(new URL("instant.mjs", import.meta.url));
  const server = spawn(process.execPath, [script, String(rows), String(length)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => {
    server.kill();
  });
  const [port] = await once(createInterface(server.stdout), "line");
  const client = new Client({ apiKey: "key", baseURL: `http://127.0.0.1:${port}` });
  onTestFinished(() => client.close());
  return client;
}

test.each([
  [64, 512, LONGEST_HOLD],
  [512, 8192, LONGEST_HOLD],
  [10_000, 60, LONGEST_HOLD],
  [100_000, 40, LONGEST_HOLD_OF_MANY],
])(
  "a step of %d x %d tokens does not hold it for %d ms",
  { timeout: 120_000 },
  async (rows, length, longest) => {
    const client = await connect(rows, length);
    const session = await client.sessions.attach("s-1");
    const samples = Array.from({ length: rows }, () => ({
      tokens: Int32Array.from({ length }, (_, i) => 1000 + i),
      targets: Int32Array.from({ length }, (_, i) => 1001 + i),
      weights: Float32Array.from({ length }, (_, i) => (i < length / 4 ? 0 : 1)),
    }));
    const inputs = { reference: samples.map(() => new Float32Array(length).fill(-0.25)) };
    let into: Gradients<"float32"> | undefined;
    const step = async () => {
      const options = { engine: held.engine, inputs, into };
      const { loss, gradients } = await computeCustomForwardBackward(session, samples, drift, options);
      await session.optimStep();
      expect(loss).toBe(1);
      into = gradients;
    };
    await step();
    await step();
    const holds: number[] = [];
    for (let nth = 0; nth < STEPS; nth++) holds.push((await holdOf(step)).own);
    expect(Math.min(...holds)).toBeLessThan(longest);
  },
);
