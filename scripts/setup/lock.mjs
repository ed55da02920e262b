// A lock between processes that outlives none of them: two set-ups of one folder take turns, and a holder killed at any
// moment leaves nothing to clean up.
//
// A lock is a folder of numbered files. The file with the highest number tells who holds it. Whoever finds that holder
// gone, or the lock given back, makes the next number; making a file is atomic, so one of several succeeds. The highest
// file is never removed, so a number is never handed out twice.
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, startOf } from "./alive.mjs";
import { say } from "./report.mjs";

const POLL_MS = 200;
const HEARTBEAT_MS = 10_000;
const SILENT_MS = 60_000; // a holder on another machine that is silent for so long is gone

/**
 * @typedef {{ pid: number, start: string }} Running
 * @typedef {{ host: string, holder: Running, children: Running[], released: boolean }} Entry
 */

/** @type {Set<Lock>} */
const held = new Set();

/** Tells the locks held that a child works under them: one that survives its parent keeps them. */
export function noteChild(/** @type {number} */ pid) {
  for (const lock of held) lock.note(pid);
}

class Lock {
  #file;
  /** @type {Entry} */
  #entry;
  #heartbeat;

  /** @param {string} file @param {Entry} entry */
  constructor(file, entry) {
    this.#file = file;
    this.#entry = entry;
    this.#heartbeat = setInterval(
      () => fs.utimes(file, new Date(), new Date(), () => {}),
      HEARTBEAT_MS,
    ).unref();
    held.add(this);
  }

  /** @param {number} pid */
  note(pid) {
    const children = this.#entry.children.filter((child) => isAlive(child.pid, child.start));
    this.#entry.children = [...children, { pid, start: startOf(pid) ?? "" }];
    this.#write();
  }

  release() {
    clearInterval(this.#heartbeat);
    held.delete(this);
    this.#entry.released = true;
    this.#write();
  }

  #write() {
    const draft = draftBeside(this.#file, this.#entry);
    fs.renameSync(draft, this.#file);
  }
}

/**
 * Runs `work` while holding the lock at `folder`, which is made if need be.
 * @template T
 * @param {string} folder
 * @param {string} what names the work in the line that a waiting process prints
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(folder, what, work) {
  const lock = await acquire(folder, what);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** @param {string} folder @param {string} what */
async function acquire(folder, what) {
  fs.mkdirSync(folder, { recursive: true });
  /** @type {Entry} */
  const mine = {
    host: os.hostname(),
    holder: { pid: process.pid, start: startOf(process.pid) ?? "" },
    children: [],
    released: false,
  };
  for (let told = false; ; ) {
    const top = Math.max(0, ...numbers(folder));
    const busy = top > 0 ? holderOf(path.join(folder, String(top))) : undefined;
    if (busy) {
      if (!told) say(`waiting for ${what} by process ${busy.pid} on ${busy.host}`);
      told = true;
      await sleep(POLL_MS);
      continue;
    }
    const file = path.join(folder, String(top + 1));
    if (!create(file, mine)) continue;
    const all = numbers(folder);
    if (Math.max(...all) !== top + 1) {
      fs.rmSync(file, { force: true }); // made from an old look at the folder: others have gone on since
      continue;
    }
    removeLeftovers(folder, top);
    return new Lock(file, mine);
  }
}

/** @param {string} folder */
function numbers(folder) {
  return fs
    .readdirSync(folder)
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** @param {string} folder @param {number} top the highest number that is over */
function removeLeftovers(folder, top) {
  for (const name of fs.readdirSync(folder)) {
    const file = path.join(folder, name);
    const age = Date.now() - (fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (Number(name) <= top || (name.startsWith("draft-") && age > SILENT_MS))
      fs.rmSync(file, { force: true });
  }
}

/**
 * Who keeps the lock by the file given, or undefined when nobody does.
 * @param {string} file
 */
function holderOf(file) {
  /** @type {Entry} */
  let entry;
  let silentMs;
  try {
    entry = JSON.parse(fs.readFileSync(file, "utf8"));
    silentMs = Date.now() - fs.statSync(file).mtimeMs;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined; // a higher number exists
    throw error;
  }
  if (entry.released) return undefined;
  if (entry.host !== os.hostname()) {
    return silentMs < SILENT_MS ? { pid: entry.holder.pid, host: entry.host } : undefined;
  }
  const running = [entry.holder, ...entry.children].find(({ pid, start }) => isAlive(pid, start));
  return running && { pid: running.pid, host: "this machine" };
}

/** Makes `file` with its whole content at once; false if it is there already. */
function create(/** @type {string} */ file, /** @type {Entry} */ entry) {
  const draft = draftBeside(file, entry);
  try {
    fs.linkSync(draft, file);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  } finally {
    fs.rmSync(draft, { force: true });
  }
}

/** @param {string} file @param {Entry} entry */
function draftBeside(file, entry) {
  const draft = path.join(path.dirname(file), `draft-${randomUUID()}`);
  fs.writeFileSync(draft, JSON.stringify(entry));
  return draft;
}
