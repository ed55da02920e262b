// Hands tasks to the addon and settles what comes of them: done, stopped, disposed of, or failed.
import { AbortError, InputError } from "../errors.ts";
import type { Graph, Program } from "../loss/graph.ts";
import type { BatchContents } from "./batch.ts";
import type { Dtype, ExecutorName, NativeEngine, NativeResult } from "./binding.ts";
import { DisposedError, typedError } from "./errors.ts";
import { bytesOf, type Gradients } from "./gradients.ts";
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
  /** Whose buffer to write over; else the gradients get one of their own. */
  readonly into?: Gradients | undefined;
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

/** Buffers that the addon may be writing to, on behalf of any engine. */
const written = new WeakSet<ArrayBuffer>();

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
    const output = this.#bufferOf(task);
    const outputs = program.outputs.map(
      ({ node }) => new Float64Array(sizeOf(layout, program.nodes[node]!.axis)),
    );
    const { rowLengths, runCounts, runs, groupSizes } = layout;
    const { native } = compiledOf(program);
    const { loss, metrics } = await this.#start(task, () => {
      const call = this.#native.run(native, {
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
      });
      // Also of a task that was stopped: it is written to until the addon lets go of it.
      written.add(output);
      const letGo = () => written.delete(output);
      call.promise.then(letGo, letGo);
      return call;
    });
    return { loss, metrics, gradients: output, outputs };
  }

  /** Where the gradients go. Not zeroed: the addon writes every byte of it. */
  #bufferOf({ contents, dtype, into }: Task): ArrayBuffer {
    const size = contents.layout.rowOffsets.at(-1)! * bytesOf(dtype);
    if (into === undefined) return Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer;
    if (!into.fits(contents.layout.rowOffsets) || into.buffer.byteLength !== size) {
      throw new InputError("into", "expected gradients with rows of the same lengths as the batch's");
    }
    if (written.has(into.buffer)) {
      throw new InputError("into", "expected gradients that no run is writing over");
    }
    return into.buffer;
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
