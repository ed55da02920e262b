// Hands tasks to the addon and settles what comes of them: done, stopped, disposed of, or failed.
import { newMemory } from "../blocks.ts";
import { AbortError } from "../errors.ts";
import type { Graph, Program } from "../loss/graph.ts";
import type { BatchContents } from "./batch.ts";
import type { Dtype, ExecutorName, NativeEngine, NativeResult } from "./binding.ts";
import { DisposedError, typedError } from "./errors.ts";
import { bytesOf } from "./gradients.ts";
import { sizeOf } from "./layout.ts";
import type { Floats } from "./pack.ts";
import { compiledOf } from "./program.ts";

export interface Task {
  readonly program: Program;
  /** The loss's graph, for messages. */
  readonly graph: Graph;
  readonly contents: BatchContents;
  /** In the order of the program's inputs. */
  readonly inputs: readonly Floats[];
  readonly dtype: Dtype;
  readonly executor: ExecutorName;
  /** Where to write the gradients, of their size; else they get memory of their own. */
  readonly memory?: ArrayBuffer | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Executed {
  readonly loss: number;
  /** In the order of the program's metrics. */
  readonly metrics: readonly number[];
  /** The gradients, in full rows. */
  readonly gradients: ArrayBuffer;
  /** One array for each output of the program: one value per element of its axis. */
  readonly outputs: readonly Float64Array[];
}

const stoppedBy = (signal: AbortSignal) =>
  new AbortError("the run was stopped by its signal", { cause: signal.reason });

export class Runner {
  readonly #native: NativeEngine;
  /** Rejects each task that has not settled. */
  readonly #open = new Set<(error: Error) => void>();
  #disposed = false;

  constructor(native: NativeEngine) {
    this.#native = native;
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  /** Runs a task after those before it. Rejects with a typed error. */
  async run(task: Task): Promise<Executed> {
    if (this.#disposed) throw new DisposedError("engine");
    const { program, contents, inputs, dtype, executor, signal } = task;
    if (signal?.aborted) throw stoppedBy(signal);
    const { layout, precision } = contents;
    // Not zeroed: the addon writes every byte of it.
    const output = task.memory ?? newMemory(layout.rowOffsets.at(-1)! * bytesOf(dtype));
    const outputs = program.outputs.map(
      ({ node }) => new Float64Array(sizeOf(layout, program.nodes[node]!.axis)),
    );
    const { rowLengths, runCounts, runs, groupSizes } = layout;
    const { native } = compiledOf(program);
    const { loss, metrics } = await this.#start(task, () =>
      this.#native.run(native, {
        rowLengths,
        runCounts,
        runs,
        groupSizes,
        inputs,
        precision,
        output,
        dtype,
        executor,
        outputs,
      }),
    );
    return { loss, metrics, gradients: output, outputs };
  }

  /** Begins a call, and lets go of it when the signal fires or the engine is disposed. */
  #start(
    { program, graph, dtype, signal }: Task,
    begin: () => ReturnType<NativeEngine["run"]>,
  ): Promise<NativeResult> {
    const fail = (error: unknown) => typedError(error, { program, graph, dtype });
    let call: ReturnType<NativeEngine["run"]>;
    try {
      call = begin();
    } catch (error) {
      throw fail(error);
    }
    return new Promise((resolve, reject) => {
      const stop = (error: Error) => {
        finish();
        this.#native.cancel(call.id);
        reject(error);
      };
      const onAbort = () => stop(stoppedBy(signal!));
      const finish = () => {
        this.#open.delete(stop);
        signal?.removeEventListener("abort", onAbort);
      };
      this.#open.add(stop);
      signal?.addEventListener("abort", onAbort);
      call.promise.then(resolve, (error) => reject(fail(error))).finally(finish);
    });
  }

  /** Ends the thread and rejects what has not settled with `DisposedError`. Safe to call twice. */
  dispose(): void {
    this.#disposed = true;
    for (const stop of this.#open) stop(new DisposedError("engine"));
    this.#native.dispose();
  }
}
