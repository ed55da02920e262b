// A program that is measured in a process of its own: it takes one command a line and answers each with one line of JSON.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** Before the engine's addon, when it loads, settles how OpenMP's threads wait: a peer gets the defaults. */
const ENVIRONMENT = { ...process.env };

/** A peer cannot do what it was asked; the message says why. */
export class PeerError extends Error {}

export class Peer {
  /** What the peer says it is. */
  readonly version: string;
  /** Where it reads batches and leaves gradients. */
  readonly folder: string;
  readonly #child: ChildProcess;
  readonly #next: () => Promise<object>;

  private constructor(version: string, folder: string, child: ChildProcess, next: () => Promise<object>) {
    this.version = version;
    this.folder = folder;
    this.#child = child;
    this.#next = next;
  }

  /**
   * Starts a program, with the number of threads and the `rest` as arguments, in the folder of the batches and waits until
   * it greets with its version.
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
      return done ? failed : (JSON.parse(value) as object);
    };
    const next = () => Promise.race([line(), failed]);
    const { version = "" } = (await next()) as { version?: string };
    return new Peer(version, folder, child, next);
  }

  /**
   * What the peer answers to a command; the caller knows of what kind that is.
   *
   * @throws {PeerError} if the peer cannot do it.
   */
  async ask<Answer extends object>(command: string): Promise<Partial<Answer>> {
    this.#child.stdin!.write(`${command}\n`);
    const answer: { error?: string } = await this.#next();
    if (answer.error !== undefined) throw new PeerError(answer.error);
    return answer as Partial<Answer>;
  }

  /** Lets the program come to its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    const running = this.#child.exitCode === null && this.#child.signalCode === null;
    this.#child.stdin!.end();
    if (running) await once(this.#child, "close");
  }
}
