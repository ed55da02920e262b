// The engine: runs losses over batches on a thread of its own.
import { AbortError, describe, InputError } from "../errors.ts";
import { Loss, type LossInputs, type LossParams } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { Batch, type BatchContents, inputOf } from "./batch.ts";
import {
  type CudaInfo,
  type Dtype,
  loadBinding,
  type NativeEngine,
  type NativeOpened,
  type NativeRequest,
  type NativeResult,
} from "./binding.ts";
import { DisposedError, typedError } from "./errors.ts";
import { bytesOf, Gradients } from "./gradients.ts";
import type { Floats } from "./pack.ts";
import { programOf } from "./program.ts";

export type DeviceName = "cpu" | "cuda" | `cuda:${number}` | "auto";

export interface EngineOptions {
  /**
   * `auto` takes a GPU if there is one. Default `auto`. Ask for a GPU before anything else computes with libtorch in the
   * process: libtorch decides at its first run whether it has CUDA, and keeps to that.
   */
  readonly device?: DeviceName | undefined;
  /** Threads to compute with. Default: the CPUs this process may use, by affinity and control groups. */
  readonly threads?: number | undefined;
}

export interface EngineInfo {
  /** Where the engine computes: `cpu` or `cuda:N`. */
  readonly device: string;
  /** What `createEngine` was asked for. */
  readonly requestedDevice: DeviceName;
  /** Why `auto` did not take a GPU. */
  readonly fallbackReason?: string;
  /** Version of libtorch, as `major.minor.patch`. */
  readonly libtorch: string;
  /** Threads that the engine computes with. */
  readonly threads: number;
  /** What runs the programs: libtorch, node by node. */
  readonly executor: "torch";
  readonly cuda: CudaInfo;
}

export interface RunOptions<P extends LossParams = LossParams, D extends Dtype = Dtype> {
  /** Values of the loss's parameters that differ from its defaults. */
  readonly params?: { readonly [Name in keyof P]?: number } | undefined;
  /** Type of the gradients. Default: `float32`. */
  readonly dtype?: D | undefined;
  /** Stops the run: it rejects with `AbortError`, at once. */
  readonly signal?: AbortSignal | undefined;
}

export interface RunResult<M extends string = string, D extends Dtype = Dtype> {
  readonly loss: number;
  /** The loss's metrics by name. A metric may be infinite or NaN; the loss and the gradients never are. */
  readonly metrics: Readonly<Record<M, number>>;
  readonly gradients: Gradients<D>;
  /** Number of samples without a trained token. */
  readonly emptySamples: number;
}

const MAX_THREADS = 4096;
const DTYPES: readonly unknown[] = ["float32", "bfloat16", "float64"];

const stoppedBy = (signal: AbortSignal) =>
  new AbortError("the run was stopped by its signal", { cause: signal.reason });

function checkLoss(loss: unknown): void {
  if (loss instanceof Loss) return;
  throw new InputError("loss", `expected what defineLoss gives, got ${describe(loss)}`);
}

/** The values of the parameters, by name. */
function readParams(loss: Loss, given: Readonly<Record<string, unknown>>): Record<string, number> {
  checkNames("params", given, Object.keys(loss.params));
  const values: Record<string, number> = { ...loss.params };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw new InputError(`params.${name}`, `expected a finite number, got ${describe(value)}`);
    }
    values[name] = value;
  }
  return values;
}

/** The arrays for each input of the program, in its order. */
function readInputs(loss: Loss, contents: BatchContents, params: Record<string, number>): Floats[] {
  return loss.graph.inputs.map(({ name, axis }) =>
    axis === "batch" ? Float64Array.of(params[name]!) : inputOf(contents, name, axis),
  );
}

/**
 * Checks, before any log-probability is known, that a batch has what a loss declares and that the parameters are its
 * own.
 *
 * @throws {InputError} naming the input or parameter.
 */
export function checkBatch<I extends LossInputs, P extends LossParams, M extends string>(
  loss: Loss<I, P, M>,
  batch: Batch,
  params: RunOptions<P>["params"] = {},
): void {
  checkLoss(loss);
  readParams(loss, params);
  const contents = Batch.contentsOf(batch);
  for (const [name, { axis }] of Object.entries(loss.inputs)) inputOf(contents, name, axis);
  const members = loss.graph.nodes.flatMap(({ op, attributes }) =>
    op === "member" ? [attributes.index! + 1] : [0],
  );
  const needed = Math.max(...members);
  const { groupSizes } = contents.layout;
  const small = groupSizes.findIndex((size) => size < needed);
  if (small >= 0) {
    throw new InputError(
      "groups",
      `group ${small}: expected at least ${needed} samples, got ${groupSizes[small]}`,
    );
  }
}

/** Runs losses. One run at a time, in the order of the calls, on a thread of its own; any number may wait. */
export class Engine {
  readonly info: EngineInfo;
  readonly #native: NativeEngine;
  /** Rejects each call that has not settled. */
  readonly #open = new Set<(error: Error) => void>();
  #disposed = false;

  /** Whether `dispose` was called. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** Use `createEngine`. */
  constructor(native: NativeEngine, info: EngineInfo) {
    this.#native = native;
    this.info = info;
  }

  /**
   * Computes a loss and its gradients, d loss / d logprob.
   *
   * @throws {InputError} if the batch lacks an input of the loss or a parameter is unknown.
   * @throws {NonFiniteError} if the loss or a gradient is not finite.
   * @throws {AbortError} when the signal fires; a kernel that is running is finished in the background.
   * @throws {DisposedError} if the engine is disposed, before or while it runs.
   */
  async run<I extends LossInputs, P extends LossParams, M extends string, D extends Dtype = "float32">(
    loss: Loss<I, P, M>,
    batch: Batch,
    options: RunOptions<P, D> = {},
  ): Promise<RunResult<M, D>> {
    if (this.#disposed) throw new DisposedError("engine");
    checkLoss(loss);
    if (!(batch instanceof Batch)) {
      throw new InputError("batch", `expected what createBatch gives, got ${describe(batch)}`);
    }
    checkNames("options", options, ["params", "dtype", "signal"]);
    const { dtype = "float32" as D, signal } = options;
    if (!DTYPES.includes(dtype)) {
      throw new InputError("dtype", `expected "float32", "bfloat16" or "float64", got ${describe(dtype)}`);
    }
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new InputError("signal", `expected an AbortSignal, got ${describe(signal)}`);
    }
    if (signal?.aborted) throw stoppedBy(signal);

    const contents = Batch.contentsOf(batch);
    const { layout, precision } = contents;
    const inputs = readInputs(loss, contents, readParams(loss, options.params ?? {}));
    const positions = layout.rowOffsets.at(-1)!;
    // Not zeroed: the addon writes every byte of it.
    const output = Buffer.allocUnsafeSlow(positions * bytesOf(dtype)).buffer as ArrayBuffer;
    const { rowLengths, runCounts, runs, groupSizes } = layout;
    const request = { rowLengths, runCounts, runs, groupSizes, inputs, precision, output, dtype };
    const { loss: value, metrics } = await this.#start(loss, request, signal);
    return {
      loss: value,
      metrics: Object.fromEntries(loss.metrics.map((name, i) => [name, metrics[i]!])) as Record<M, number>,
      gradients: new Gradients(output, dtype, layout.rowOffsets),
      emptySamples: layout.emptySamples,
    };
  }

  /** Hands a request to the addon, and lets go of it when the signal fires or the engine is disposed. */
  #start(loss: Loss, request: NativeRequest, signal: AbortSignal | undefined): Promise<NativeResult> {
    const fail = (error: unknown) => typedError(error, { graph: loss.graph, dtype: request.dtype });
    let call: ReturnType<NativeEngine["run"]>;
    try {
      call = this.#native.run(programOf(loss), request);
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

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Starts an engine.
 *
 * @throws {DeviceError} if a GPU was asked for by name and cannot be had; `auto` falls back instead.
 * @throws {LoadError} or {LibtorchVersionError} if the native addon does not load.
 */
export async function createEngine(options: EngineOptions = {}): Promise<Engine> {
  checkNames("engine", options, ["device", "threads"]);
  const { device = "auto", threads } = options;
  if (typeof device !== "string" || !/^(auto|cpu|cuda(:\d+)?)$/.test(device)) {
    throw new InputError("device", `expected "cpu", "cuda", "cuda:N" or "auto", got ${describe(device)}`);
  }
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS)) {
    throw new InputError(
      "threads",
      `expected a whole number from 1 to ${MAX_THREADS}, got ${describe(threads)}`,
    );
  }
  const binding = loadBinding();
  const used = threads ?? binding.availableCpus;
  const native = new binding.Engine({ device, threads: used });
  let opened: NativeOpened;
  try {
    opened = await native.open().promise;
  } catch (error) {
    native.dispose();
    throw typedError(error);
  }
  const { fallbackReason } = opened;
  return new Engine(native, {
    device: opened.device,
    requestedDevice: device,
    ...(fallbackReason !== undefined && { fallbackReason }),
    libtorch: binding.libtorchVersion,
    threads: used,
    executor: "torch",
    cuda: opened.cuda,
  });
}
