// A process, or a worker thread, that uses the engine and ends in the way its first argument names.
import { longRun, newEngine } from "./native.mjs";

/** @param {string} word */
const say = (word) => process.stdout.write(`${word}\n`);
const started = () => new Promise((resolve) => setTimeout(resolve, Number(process.argv[3] ?? 30)));

/** @type {Record<string, () => Promise<void>>} */
const endings = {
  /** Loads the addon and does nothing with it. */
  async loaded() {},

  /** An engine that nobody used must not keep the process alive. */
  async idle() {
    newEngine();
  },
  /** Nor one that was used and never disposed of. */
  async finished() {
    await longRun(newEngine()).promise;
    say("done");
  },
  /** A run that is pending does. */
  async pending() {
    longRun(newEngine()).promise.then(() => say("done"));
  },
  async disposed() {
    const engine = newEngine();
    const { promise } = longRun(engine);
    await started();
    engine.dispose();
    await promise.catch((error) => say(error.code));
  },
  async exit() {
    const engine = newEngine();
    for (let i = 0; i < 3; i++) longRun(engine);
    await started();
    process.exit(0);
  },
  async exitWithCode() {
    for (let i = 0; i < 3; i++) longRun(newEngine());
    await started();
    process.exit(7);
  },
  async throw() {
    longRun(newEngine());
    await started();
    throw new Error("on purpose");
  },
  async signal() {
    longRun(newEngine());
    await started();
    process.kill(process.pid, "SIGTERM");
    await new Promise(() => setInterval(() => {}, 1000));
  },
  async collected() {
    for (let i = 0; i < 20; i++) {
      newEngine();
      longRun(newEngine(1));
      globalThis.gc?.();
      await started();
    }
    say("done");
  },
};

await endings[process.argv[2] ?? ""]?.();
