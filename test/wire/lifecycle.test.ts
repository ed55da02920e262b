// Processes that end in the middle of the wire's work: the wanted exit code, no crash, no hang.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

async function end(ending: string) {
  const path = fileURLToPath(new URL("child.mjs", import.meta.url));
  const child = spawn(process.execPath, ["--expose-gc", path, ending], {
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
    ["finish", 0, "written\n"],
    ["drop", 0, "written\n"],
    ["dispose", 0, "ERR_ABORTED\n"],
    ["exit", 7, ""],
  ])("ends well: %s", { timeout: 60_000 }, async (ending, code, output) => {
    expect(await end(ending)).toEqual({ code, signal: null, output });
  });

  it("ends well: throw", { timeout: 60_000 }, async () => {
    expect(await end("throw")).toMatchObject({
      code: 1,
      signal: null,
      output: expect.stringContaining("on purpose"),
    });
  });
});
