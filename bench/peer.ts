// A program that runs the same losses on the same batches: a child process that takes one command a line and answers each
// with one line of JSON.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** Before the engine's addon, when it loads, settles how OpenMP's threads wait: a peer gets the defaults. */
const ENVIRONMENT = { ...process.env };

/** A peer cannot do what it was asked; the message says why. */
export class PeerError extends Error {}

/** What a peer may answer with. */
export interface PeerAnswer {
  readonly version?: string;
  readonly error?: string;
  readonly loss?: number;
  /** Milliseconds of the run that gave the answer. */
  readonly first?: number;
  /** Milliseconds of each run. */
  readonly times?: readonly number[];
}

export class Peer {
  /** What the peer says it is. */
  readonly version: string;
  /** Where it reads batches and leaves gradients. */
  readonly folder: string;
  readonly #child: ChildProcess;
  readonly #next: () => Promise<PeerAnswer>;

  private constructor(version: string, folder: string, child: ChildProcess, next: () => Promise<PeerAnswer>) {
    this.version = version;
    this.folder = folder;
    this.#child = child;
    this.#next = next;
  }

  /**
   * Starts a program, with the number of threads and the `rest` as arguments, in the folder of the batches and waits until it greets with its version.
   *
   * @throws {PeerError} with the last thing it printed, if it ends instead.
   */
  static async start(
    program: string,
    script: readonly string[],
    options: { folder: string; threads: number; rest?: readonly string[]; env?: Record<string, string> },
  ): Promise<Peer> {
    const { folder, threads, rest = [], env } = options;
    const child = spawn(program, [...script, String(threads), ...rest], {
      cwd: folder,
      env: { ...ENVIRONMENT, OMP_NUM_THREADS: String(threads), ...env },
    });
    let printed = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      printed = (printed + text).slice(-4096);
    });
    const failed = new Promise<never>((_, reject) => {
      child.on("error", (error) => reject(new PeerError(error.message)));
      child.on("close", (code) => {
        reject(new PeerError(printed.trimEnd().split("\n").at(-1) || `it ended with code ${code}`));
      });
    });
    failed.catch(() => {}); // once closed, nobody may be waiting
    child.stdin.on("error", () => {}); // `failed` tells of it
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    const line = async () => {
      const { value, done } = await lines.next();
      return done ? failed : (JSON.parse(value) as PeerAnswer);
    };
    const next = () => Promise.race([line(), failed]);
    const { version } = await next();
    return new Peer(version ?? "", folder, child, next);
  }

  /** @throws {PeerError} if the peer cannot do it. */
  async ask(command: string): Promise<PeerAnswer> {
    this.#child.stdin!.write(`${command}\n`);
    const answer = await this.#next();
    if (answer.error !== undefined) throw new PeerError(answer.error);
    return answer;
  }

  /** Lets the program come to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    const running = this.#child.exitCode === null && this.#child.signalCode === null;
    this.#child.stdin!.end();
    if (running) await once(this.#child, "close");
  }
}
