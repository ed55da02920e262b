// Two clients, one server: the service's own Python client, unmodified, drives the local trainer, and the clients take
// over sessions from each other.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import type { Sample } from "../../src/client/sample.ts";
import type { LocalTrainer } from "../../src/local/index.ts";
import { clientOf, sessionOf, trainerWith } from "./trainer.ts";

const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL("vendor.py", import.meta.url));
const PACKAGES = ["together==3.1.1", "numpy"];

/** A Python of its own with the package in it; a reason where there is none to be had. */
async function vendorPython(): Promise<{ python: string } | { reason: string }> {
  const folder = await mkdtemp(join(tmpdir(), "tokengrad-python-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  try {
    await run("python3", ["-m", "venv", folder]);
    const python = join(folder, "bin", "python");
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"];
    await run(python, [...pip, ...PACKAGES], { timeout: 180_000 });
    return { python };
  } catch (error) {
    const { stderr = "", message } = error as Error & { stderr?: string };
    return { reason: stderr.trim().split("\n").pop() || message };
  }
}

interface Begun {
  readonly session: string;
  readonly step: number;
  readonly version: number;
  readonly sampled: readonly number[];
  readonly prompt: number;
  readonly checkpoints: readonly string[];
  readonly files: readonly number[];
  readonly large: number;
  readonly logprobs: readonly (readonly number[])[];
  readonly samples: readonly {
    readonly model_input: {
      readonly chunks: readonly { readonly encoded_text: { readonly tokens: number[] } }[];
    };
    readonly loss_fn_inputs: Readonly<Record<"target_tokens" | "weights", { readonly data: number[] }>>;
  }[];
}

interface GoneOn {
  readonly before: readonly (readonly number[])[];
  readonly step: number;
  readonly after: readonly (readonly number[])[];
}

async function vendor<T>(python: string, trainer: LocalTrainer, ...command: string[]): Promise<T> {
  const { stdout } = await run(python, [SCRIPT, ...command], {
    env: { ...process.env, TOGETHER_BASE_URL: trainer.url, TOGETHER_API_KEY: trainer.apiKey },
    maxBuffer: 2 ** 26,
  });
  return JSON.parse(stdout.trim().split("\n").pop()!) as T;
}

test("the service's Python client trains on the local trainer; sessions go from one client to the other", {
  timeout: 300_000,
}, async ({ skip }) => {
  const found = await vendorPython();
  if ("reason" in found) {
    console.log(`skipped: no environment with ${PACKAGES.join(" and ")}: ${found.reason}`);
    skip();
    return;
  }
  const uploads: string[] = [];
  const trainer = await trainerWith({
    faults: ({ method, path }) => {
      if (/upload-url|download-url/.test(path)) uploads.push(`${method} ${path.split("/").pop()}`);
      return undefined;
    },
  });

  const begun = await vendor<Begun>(found.python, trainer, "begin");
  expect(begun).toMatchObject({
    step: 2,
    version: 1,
    sampled: [5, 5],
    prompt: 3,
    checkpoints: ["CHECKPOINT_TYPE_INFERENCE", "CHECKPOINT_TYPE_TRAINING"],
    large: 1200,
  });
  expect(begun.files[0]).toBeGreaterThan(1000);
  // Scoring twice and a custom pass up, two results down.
  expect(uploads.sort()).toEqual([
    ...Array(2).fill("POST download-url"),
    ...Array(3).fill("POST upload-url"),
  ]);

  const client = clientOf(trainer);
  const session = await client.sessions.attach(begun.session);
  const samples: Sample[] = begun.samples.map(({ model_input, loss_fn_inputs }) => ({
    tokens: model_input.chunks[0]!.encoded_text.tokens,
    targets: loss_fn_inputs.target_tokens.data,
    weights: loss_fn_inputs.weights.data,
  }));
  expect(await session.info()).toMatchObject({ step: 2, trainingCheckpoints: [{ step: 1 }] });
  const { logprobs } = await session.forward(samples);
  expect(logprobs).toEqual(begun.logprobs.map((row) => Float32Array.from(row)));
  await session.customForwardBackward(
    samples,
    logprobs.map((row) => row.map((logprob) => logprob / 100)),
  );
  expect((await session.optimStep({ adam: { learningRate: 1e-3 } })).step).toBe(3);

  const trained = await session.forward(samples);
  const goneOn = await vendor<GoneOn>(found.python, trainer, "go_on", session.id);
  expect(goneOn.step).toBe(4);
  expect(goneOn.before.map((row) => Float32Array.from(row))).toEqual(trained.logprobs);
  const last = await session.forward(samples);
  expect(last.logprobs).toEqual(goneOn.after.map((row) => Float32Array.from(row)));
  expect(last.logprobs).not.toEqual(trained.logprobs);

  // The other way round: begun here, gone on with there.
  const own = await sessionOf(client);
  await own.forwardBackward(samples, { type: "cross_entropy" });
  await own.optimStep({ adam: { learningRate: 1e-3 } });
  const scored = await own.forward(samples);
  const joined = await vendor<GoneOn>(found.python, trainer, "go_on", own.id);
  expect(joined.before.map((row) => Float32Array.from(row))).toEqual(scored.logprobs);
  expect(joined.step).toBe(2);
  expect((await own.info()).step).toBe(2);
});
