// `tokengrad demo`: its options and how it ends.
import { join, relative } from "node:path";
import { Command } from "commander";
import { wholeNumber } from "../numbers.ts";
import { runDemo } from "./run.ts";

const data = (file: string) =>
  relative(process.cwd(), join(import.meta.dirname, "../../../examples/data", file));

/** Exit code of a process that Ctrl-C ended. */
const INTERRUPTED = 130;

export const demoCommand = () =>
  new Command("demo")
    .description("train a small model with a built-in and three custom losses on the embedded local trainer")
    .option(
      "--data <file>",
      "preference pairs: JSONL with prompt, chosen and rejected",
      data("preferences.jsonl"),
    )
    .option("--text <file>", "text that the base model is trained on", data("tales.txt"))
    .option("--out <folder>", "where the picture of the curves goes", join("runs", "demo"))
    .option("--seed <number>", "seed of everything random", wholeNumber, 0)
    .action(async (options) => {
      const controller = new AbortController();
      const stop = () => {
        // A second signal ends the process at once.
        process.once("SIGINT", () => process.exit(INTERRUPTED));
        controller.abort();
      };
      process.once("SIGINT", stop).once("SIGTERM", stop);
      try {
        process.exitCode = (await runDemo(options, controller.signal)) ? 0 : 1;
      } catch (error) {
        if (!controller.signal.aborted) throw error;
        console.log("\nstopped");
        process.exitCode = INTERRUPTED;
      } finally {
        process.off("SIGINT", stop).off("SIGTERM", stop);
      }
    });
