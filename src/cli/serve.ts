// `tokengrad serve`: the local trainer as a process of its own.
import { Command, Option } from "commander";
import {
  type LocalTrainer,
  type LocalTrainerOptions,
  randomFaults,
  startLocalTrainer,
} from "../local/index.ts";
import { share, wholeNumber } from "./numbers.ts";

interface ServeFlags {
  readonly port: number;
  readonly host: string;
  readonly key?: string;
  readonly data: string;
  readonly modelName: string;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly context: number;
  readonly vocabulary: number;
  readonly endOfText?: number;
  readonly seed: number;
  readonly threads?: number;
  readonly bodyLimit: number;
  readonly faultRate: number;
  readonly faultSeed: number;
}

/** What a shell reports of a process that a request to terminate has ended. */
const TERMINATED = 143;

export function serveCommand(): Command {
  return new Command("serve")
    .description("start a trainer on this machine that speaks the hosted trainer's HTTP API")
    .option("--port <number>", "port to listen on, 0 for any that is free", wholeNumber, 8787)
    .option(
      "--host <address>",
      "address to listen on; other machines can reach any but the default",
      "127.0.0.1",
    )
    .addOption(
      new Option("--key <text>", "key that requests must bear (default: a new one, printed)").env(
        "TOKENGRAD_KEY",
      ),
    )
    .option("--data <folder>", "folder for checkpoints", ".tokengrad")
    .option("--model-name <text>", "name of the base model", "local/tiny")
    .option("--layers <number>", "layers of the model", wholeNumber, 4)
    .option("--width <number>", "width of the model, a multiple of twice the heads", wholeNumber, 128)
    .option("--heads <number>", "attention heads of a layer", wholeNumber, 2)
    .option("--context <tokens>", "longest sequence", wholeNumber, 256)
    .option("--vocabulary <tokens>", "number of tokens; those below 256 are bytes", wholeNumber, 257)
    .option("--end-of-text <token>", "token that ends a completion (default: the last one)", wholeNumber)
    .option("--seed <number>", "seed of the initial weights", wholeNumber, 0)
    .option("--threads <number>", "threads of libtorch (default: the CPUs of this process)", wholeNumber)
    .option("--body-limit <bytes>", "largest request body", wholeNumber, 256 * 2 ** 20)
    .option("--fault-rate <share>", "share of requests that go wrong, 0 to 1, to try out a client", share, 0)
    .option("--fault-seed <number>", "seed of what goes wrong", wholeNumber, 0)
    .action(serve);
}

async function serve(flags: ServeFlags): Promise<void> {
  const { layers, width, heads, context, vocabulary, endOfText } = flags;
  const stopped = stopSignal();
  const trainer = await start({
    model: {
      ...{ layers, width, heads, context, vocabulary, endOfText },
      seed: BigInt(flags.seed),
    },
    modelName: flags.modelName,
    host: flags.host,
    port: flags.port,
    dataFolder: flags.data,
    bodyLimitBytes: flags.bodyLimit,
    apiKey: flags.key,
    threads: flags.threads,
    faults: flags.faultRate > 0 ? randomFaults(flags.faultRate, flags.faultSeed) : undefined,
  });
  process.stdout.write(
    [
      `The trainer of ${trainer.modelName} listens at ${trainer.url}; Ctrl-C ends it.`,
      "For clients:",
      `  export TOGETHER_BASE_URL=${trainer.url}/v1`,
      `  export TOGETHER_API_KEY=${trainer.apiKey}`,
      "",
    ].join("\n"),
  );
  const signal = await stopped;
  await trainer.close();
  if (signal === "SIGTERM") process.exitCode = TERMINATED;
}

async function start(options: LocalTrainerOptions): Promise<LocalTrainer> {
  try {
    return await startLocalTrainer(options);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE") throw error;
    throw new Error(`${message}: something else listens there; choose another port with --port`, {
      cause: error,
    });
  }
}

/** Resolves at the first Ctrl-C or request to terminate; a second one ends the process at once. */
function stopSignal(): Promise<"SIGINT" | "SIGTERM"> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve(signal));
  });
}
