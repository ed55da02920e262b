// The lock: one holder at a time, whatever happens to the processes that take it.
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { PROJECT, temporaryFolder } from "./checkout.ts";

const MODULES = path.join(PROJECT, "scripts/setup");
let folder: string;
let children: ChildProcess[];

beforeEach(() => {
  folder = temporaryFolder();
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  fs.rmSync(folder, { recursive: true, force: true });
});

/** A process that runs `body` while it holds the lock; in it `log(text)` adds a line to a file. */
function holder(body: string): { child: ChildProcess; end: Promise<{ code: number | null; err: string }> } {
  const program = `
import fs from "node:fs";
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { withLock } from ${JSON.stringify(path.join(MODULES, "lock.mjs"))};
import { run } from ${JSON.stringify(path.join(MODULES, "programs.mjs"))};
const folder = ${JSON.stringify(folder)};
const log = (text) => fs.appendFileSync(folder + "/log", text + "\\n");
await withLock(folder + "/lock", "a test", async () => { ${body} });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  children.push(child);
  let err = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const end = new Promise<{ code: number | null; err: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, err })),
  );
  return { child, end };
}

const log = () =>
  fs.existsSync(path.join(folder, "log")) ? fs.readFileSync(path.join(folder, "log"), "utf8") : "";

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10);
}

it("lets processes in one after the other", async () => {
  const body = 'log("in"); await sleep(30); log("out");';
  const ends = await Promise.all(Array.from({ length: 8 }, () => holder(body).end));
  expect(ends.map(({ code }) => code)).toEqual(Array(8).fill(0));
  expect(log()).toBe("in\nout\n".repeat(8));
  expect(fs.readdirSync(path.join(folder, "lock"))).toHaveLength(1);
});

it("tells a waiting process whom it waits for", async () => {
  const first = holder('log("in"); await sleep(1000);');
  await until(() => log() === "in\n");
  const { err } = await holder("").end;
  expect(err).toBe(`set-up: waiting for a test by process ${first.child.pid} on this machine\n`);
});

it("is free again after its holder was killed, also for several at once", async () => {
  const killed = holder('log("in"); await sleep(60000);');
  await until(() => log() === "in\n");
  const body = 'log("in"); await sleep(30); log("out");';
  const waiting = Array.from({ length: 4 }, () => holder(body));
  await sleep(500);
  killed.child.kill("SIGKILL");
  await Promise.all(waiting.map(({ end }) => end));
  expect(log()).toBe(`in\n${"in\nout\n".repeat(4)}`);
});

it("is free again after its holder failed", async () => {
  expect((await holder('throw new Error("no");').end).code).toBe(1);
  expect((await holder('log("in");').end).err).toBe("");
  expect(log()).toBe("in\n");
});

it("stays taken while a program that a killed holder started still works", async () => {
  const work =
    'setTimeout(() => require("fs").appendFileSync(process.argv[1] + "/log", "work done\\n"), 1200)';
  const killed = holder(
    `const done = run(process.execPath, ["-e", ${JSON.stringify(work)}, folder]); log("in"); await done;`,
  );
  await until(() => log() === "in\n");
  await sleep(100);
  killed.child.kill("SIGKILL");
  const { err } = await holder('log("next");').end;
  expect(err).toMatch(/waiting for a test by process \d+ on this machine/);
  expect(log()).toBe("in\nwork done\nnext\n");
});

it("is not kept by an entry whose process id now belongs to another process", async () => {
  const entry = {
    host: (await import("node:os")).hostname(),
    holder: { pid: process.pid, start: "1" },
    children: [],
    released: false,
  };
  fs.mkdirSync(path.join(folder, "lock"));
  fs.writeFileSync(path.join(folder, "lock/41"), JSON.stringify(entry));
  expect((await holder('log("in");').end).err).toBe("");
  expect(fs.readdirSync(path.join(folder, "lock"))).toEqual(["42"]);
});

it("is kept by another machine while that gives signs of life", async () => {
  const entry = { host: "elsewhere.test", holder: { pid: 1, start: "1" }, children: [], released: false };
  const file = path.join(folder, "lock/7");
  fs.mkdirSync(path.dirname(file));
  fs.writeFileSync(file, JSON.stringify(entry));
  const waiting = holder('log("in");');
  await sleep(800);
  expect(log()).toBe("");
  const twoMinutesAgo = new Date(Date.now() - 120_000);
  fs.utimesSync(file, twoMinutesAgo, twoMinutesAgo);
  expect((await waiting.end).err).toBe("set-up: waiting for a test by process 1 on elsewhere.test\n");
  expect(log()).toBe("in\n");
});

it("ends the program that runs under it when the holder is told to end", async () => {
  const work = `require("fs").appendFileSync(process.argv[1] + "/log", "pid " + process.pid + "\\n"); setTimeout(() => {}, 60000)`;
  const ended = holder(`await run(process.execPath, ["-e", ${JSON.stringify(work)}, folder]);`);
  await until(() => log().startsWith("pid"));
  ended.child.kill("SIGTERM");
  expect((await ended.end).code).toBe(143);
  const pid = Number(log().split(" ")[1]);
  expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
