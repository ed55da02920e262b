// Processes and worker threads that end in every state of the engine: the wanted exit code, no crash, no hang. What they
// guard against: a thread of the engine inside libtorch while the process tears libtorch down.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

/** Milliseconds from the start of a run to the end: in its first ops, in the midst of it, near its end. */
const DELAYS = ["0", "10", "40", "90"];

async function end(script: string, ending: string, delay = "30") {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(process.execPath, ["--expose-gc", path, ending, delay], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 30_000,
    killSignal: "SIGKILL",
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  const [code, signal] = await once(child, "close");
  return { code, signal, output };
}

describe("a process", () => {
  it.each([
    ["loaded", ""],
    ["idle", ""],
    ["finished", "done\n"],
    ["pending", "done\n"],
    ["disposed", "ERR_ABORTED\n"],
    ["collected", "done\n"],
  ])("that leaves the engine %s ends by itself", { timeout: 60_000 }, async (ending, output) => {
    expect(await end("child.mjs", ending)).toEqual({ code: 0, signal: null, output });
  });

  it.each(DELAYS)("exits while it runs, after %s ms", { timeout: 60_000 }, async (delay) => {
    expect(await end("child.mjs", "exit", delay)).toMatchObject({ code: 0, signal: null, output: "" });
    expect(await end("child.mjs", "exitWithCode", delay)).toMatchObject({
      code: 7,
      signal: null,
      output: "",
    });
  });

  it.each(DELAYS)("throws while it runs, after %s ms", { timeout: 60_000 }, async (delay) => {
    const { code, signal, output } = await end("child.mjs", "throw", delay);
    expect({ code, signal }).toEqual({ code: 1, signal: null });
    expect(output).toContain("on purpose");
  });

  it("dies of SIGTERM while it runs", { timeout: 60_000 }, async () => {
    expect(await end("child.mjs", "signal")).toEqual({ code: null, signal: "SIGTERM", output: "" });
  });
});

describe("worker threads", () => {
  it("run two at once", { timeout: 60_000 }, async () => {
    const { code, output } = await end("threads.mjs", "twoAtOnce");
    expect(code).toBe(0);
    expect(output.split("\n").sort()).toEqual(["", "done", "done", "ended 0", "ended 0"]);
  });

  it("load the addon again after it was closed with their environment", { timeout: 60_000 }, async () => {
    const { code, output } = await end("threads.mjs", "oneAfterTheOther");
    expect({ code, output }).toEqual({ code: 0, output: "done\nended 0\n".repeat(3) });
  });

  it.each(["0", "30", "150"])(
    "are terminated while they run, after %s ms",
    { timeout: 60_000 },
    async (delay) => {
      expect(await end("threads.mjs", "terminated", delay)).toMatchObject({ code: 0, signal: null });
    },
  );

  it("exit while they run", { timeout: 60_000 }, async () => {
    expect(await end("threads.mjs", "workerExits")).toEqual({ code: 0, signal: null, output: "ended 7\n" });
  });

  it.each(["30", "150"])(
    "run while the main thread exits, after %s ms",
    { timeout: 60_000 },
    async (delay) => {
      expect(await end("threads.mjs", "mainExits", delay)).toMatchObject({ code: 3, signal: null });
    },
  );
});
