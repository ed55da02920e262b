// The trainer as part of a process: it never holds one up, never brings one down, and ends with it.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const dist = fileURLToPath(new URL("../../dist", import.meta.url));
const binding = JSON.stringify(new URL("../../dist/local/binding.js", import.meta.url).href);
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tokengrad-test-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** Output and end of a child, and how to wait for a text in its output. */
function watch(child: ChildProcess) {
  let output = "";
  const watchers = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (data) => {
      output += data;
      for (const watcher of watchers) watcher();
    });
  }
  const ended = new Promise<{ code: number | null; signal: string | null; output: string }>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal, output }));
  });
  const seen = (pattern: RegExp) =>
    new Promise<RegExpMatchArray>((resolve, reject) => {
      const look = () => {
        const match = output.match(pattern);
        if (match) resolve(match);
      };
      watchers.add(look);
      look();
      void ended.then(() => reject(new Error(`the process ended: ${output}`)));
    });
  return { ended, seen };
}

/** Runs a module in a process of its own; it has the addon, and a session that is busy for a long time if it asks. */
function script(code: string) {
  const common = `
    import { loadTrainer } from ${binding};
    const addon = loadTrainer();
    const config = { layers: 4, width: 128, heads: 2, context: 256, vocabulary: 257, seed: 0n, precision: "float32" };
    const session = await addon.createSession(config);
    const sample = (samples) => session.sample({
      tokens: Int32Array.of(1, 2, 3), offsets: Int32Array.of(0, 3), samples, maxTokens: 250, temperature: 1, topP: 1,
      topK: -1, stop: [], endOfText: -1, seed: 0n, promptLogprobs: false, topPromptLogprobs: 0,
    });
    const long = () => { const busy = sample(100_000); busy.catch(() => undefined); return busy; };
  `;
  return watch(spawn(process.execPath, ["--input-type=module", "-e", common + code], { stdio: "pipe" }));
}

const scripts: readonly (readonly [string, string, number, RegExp])[] = [
  ["ends by itself when nothing is pending", "console.log(typeof session.publish);", 0, /^function$/m],
  ["stays while work is pending", "sample(2).then(() => console.log('done'));", 0, /done/],
  ["ends with process.exit while work runs", "long(); setTimeout(() => process.exit(7), 200);", 7, /^$/],
  [
    "ends with an error while work runs",
    "long(); setTimeout(() => { throw new Error('boom'); }, 200);",
    1,
    /boom/,
  ],
  ["ends at once when it exits with work queued", "long(); long(); process.exit(3);", 3, /^$/],
  [
    "refuses work in its exit handlers",
    "process.on('exit', () => { try { session.publish(); } catch (e) { console.log(e.code); } });",
    0,
    /ERR_DISPOSED/,
  ],
  [
    "keeps the event loop free while it works",
    `let last = performance.now(), worst = 0;
     const timer = setInterval(() => { const now = performance.now(); worst = Math.max(worst, now - last); last = now; }, 5);
     await sample(100); clearInterval(timer); console.log(worst < 100 ? "free" : worst);`,
    0,
    /free/,
  ],
  [
    "works in worker threads side by side, which may be terminated at work",
    `const { Worker } = await import("node:worker_threads");
     const code = \`import { parentPort } from "node:worker_threads"; import { loadTrainer } from ${binding};
       const session = await loadTrainer().createSession({ layers: 1, width: 16, heads: 2, context: 32, vocabulary: 257, seed: 0n, precision: "float32" });
       parentPort.postMessage(await session.publish());
       const request = { tokens: Int32Array.of(1), offsets: Int32Array.of(0, 1), samples: 100000, maxTokens: 30, temperature: 1, topP: 1, topK: -1, stop: [], endOfText: -1, seed: 0n, promptLogprobs: false, topPromptLogprobs: 0 };
       await session.sample(request);\`;
     const workers = [1, 2, 3].map(() => new Worker(new URL("data:text/javascript," + encodeURIComponent(code))));
     await Promise.all(workers.map((w) => new Promise((resolve, reject) => { w.once("message", resolve); w.once("error", reject); })));
     await new Promise((resolve) => setTimeout(resolve, 100));
     await Promise.all(workers.map((w) => w.terminate()));
     await sample(1);
     console.log("alive");`,
    0,
    /alive/,
  ],
];

test.each(scripts)("a process %s", { timeout: 60_000 }, async (_, code, exitCode, output) => {
  const start = performance.now();
  const ended = await script(code).ended;
  expect(ended).toEqual({ code: exitCode, signal: null, output: expect.stringMatching(output) });
  // The long work would take minutes.
  expect(performance.now() - start).toBeLessThan(30_000);
});

test.each([
  ["SIGINT", 0],
  ["SIGTERM", 143],
] as const)(
  "tokengrad serve ends cleanly at %s, also at work",
  { timeout: 60_000 },
  async (signal, exitCode) => {
    const args = [
      "serve",
      "--port",
      "0",
      "--data",
      folder,
      "--layers",
      "2",
      "--width",
      "64",
      "--key",
      "k-123",
    ];
    const child = spawn(process.execPath, [join(dist, "cli/main.js"), ...args], { stdio: "pipe" });
    const { ended, seen } = watch(child);
    const [, url] = await seen(/TOGETHER_BASE_URL=(\S+\/v1)\n/);
    await seen(/TOGETHER_API_KEY=k-123\n/);
    const call = async (path: string, body: object) => {
      const headers = { authorization: "Bearer k-123", "idempotency-key": "1" };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return (await response.json()) as { id: string };
    };
    const resources = await call("/rl/model-resources", { base_model: "local/tiny" });
    const session = await call("/rl/training-sessions", { model_resources_id: resources.id });
    await call(`/rl/training-sessions/${session.id}/operations/sample`, {
      model_inputs: [{ chunks: [{ encoded_text: { tokens: [1] } }] }],
      num_samples: 4096,
      sampling_params: { max_tokens: 250 },
    });
    const start = performance.now();
    child.kill(signal);
    expect(await ended).toMatchObject({ code: exitCode, signal: null });
    expect(performance.now() - start).toBeLessThan(5000);
  },
);

const serve = (...args: string[]) =>
  spawn(process.execPath, [join(dist, "cli/main.js"), "serve", "--data", folder, ...args], { stdio: "pipe" });

test("tokengrad serve on all addresses prints one that works here, and what to do where the port is taken", async () => {
  const child = serve("--port", "0", "--host", "0.0.0.0", "--key", "k-123");
  const { seen, ended } = watch(child);
  const [, url] = await seen(/TOGETHER_BASE_URL=(http:\/\/127\.0\.0\.1:\d+\/v1)\n/);
  const answer = await fetch(`${url}/rl/supported-models`, { headers: { authorization: "Bearer k-123" } });
  expect(answer.status).toBe(200);
  const taken = await watch(serve("--host", "0.0.0.0", "--port", new URL(url!).port)).ended;
  expect(taken).toMatchObject({
    code: 1,
    output: expect.stringMatching(/EADDRINUSE.*choose another port with --port/),
  });
  child.kill();
  await ended;
});

test("tokengrad serve lets requests go wrong where asked to", async () => {
  const child = serve("--port", "0", "--key", "k-123", "--fault-rate", "1", "--fault-seed", "4");
  const { seen, ended } = watch(child);
  const [, url] = await seen(/TOGETHER_BASE_URL=(\S+\/v1)\n/);
  const headers = { authorization: "Bearer k-123" };
  const outcomes = new Set<number | string>();
  for (let nth = 0; nth < 40; nth++) {
    const signal = AbortSignal.timeout(200);
    const outcome = fetch(`${url}/rl/supported-models`, { headers, signal }).then(
      async (response) => (await response.text()).length,
      () => "failed",
    );
    outcomes.add(await outcome);
  }
  expect(outcomes.has("failed")).toBe(true);
  expect(outcomes.size).toBeGreaterThan(2);
  child.kill();
  await ended;
});

test("tokengrad serve says what is wrong with an option", async () => {
  const run = (...args: string[]) => watch(serve(...args)).ended;
  expect(await run("--port", "many")).toMatchObject({
    code: 1,
    output: expect.stringContaining("whole number"),
  });
  expect((await run("--fault-rate", "2")).output).toContain("from 0 to 1");
  expect(await run("--width", "30", "--heads", "4")).toMatchObject({
    code: 1,
    output: expect.stringMatching(/tokengrad: width: expected a multiple of twice the heads/),
  });
});
