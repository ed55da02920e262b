// A process whose worker threads use the engine, and that ends in the way its first argument names. Its main thread does
// not load the addon.
import { once } from "node:events";
import { Worker } from "node:worker_threads";

const delay = Number(process.argv[3] ?? 60);
const pause = () => new Promise((resolve) => setTimeout(resolve, delay));
/** @param {string} ending */
const worker = (ending) =>
  new Worker(new URL("./child.mjs", import.meta.url), { argv: [ending, `${delay}`] });
/**
 * Says how the thread ended. To be called before it can.
 * @param {Worker} thread
 */
const ended = async (thread) => process.stdout.write(`ended ${(await once(thread, "exit"))[0]}\n`);

/** @type {Record<string, () => Promise<void>>} */
const endings = {
  async twoAtOnce() {
    await Promise.all([worker("finished"), worker("finished")].map(ended));
  },
  async oneAfterTheOther() {
    for (let i = 0; i < 3; i++) await ended(worker("finished"));
  },
  async terminated() {
    const threads = [worker("pending"), worker("pending")];
    const ends = threads.map(ended);
    await Promise.all(threads.map((thread) => once(thread, "online")));
    await pause();
    for (const thread of threads) thread.terminate();
    await Promise.all(ends);
  },
  async workerExits() {
    await ended(worker("exitWithCode"));
  },
  async mainExits() {
    const thread = worker("pending");
    await once(thread, "online");
    await pause();
    process.exit(3);
  },
};

await endings[process.argv[2] ?? ""]?.();
