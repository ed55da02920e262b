// The engine: runs losses over batches on a thread of its own.
import { describe, InputError } from "../errors.ts";
import type { Loss, LossInputs, LossParams } from "../loss/define.ts";
import type { Graph, Program } from "../loss/graph.ts";
import { checkNames } from "../names.ts";
import { checkSignal, contentsOf, type GivenParams, readInputs, readParams } from "./arguments.ts";
import type { Batch, BatchContents } from "./batch.ts";
import {
  type CudaInfo,
  type Dtype,
  type ExecutorName,
  loadBinding,
  type NativeOpened,
  type Precision,
} from "./binding.ts";
import { type CheckOptions, checkInputs, type GradientCheck } from "./check-gradients.ts";
import { DisposedError, NonFiniteError, typedError } from "./errors.ts";
import { Gradients } from "./gradients.ts";
import { checkLoss } from "./inputs.ts";
import { type Inspection, inspectionFrom, inspectionOf } from "./inspection.ts";
import type { Floats } from "./pack.ts";
import { compiledOf } from "./program.ts";
import { Runner } from "./runner.ts";
import { emptied, restored, without } from "./set-aside.ts";

export type DeviceName = "cpu" | "cuda" | `cuda:${number}` | "auto";

export interface EngineOptions {
  /**
   * `auto` takes a GPU if there is one. Default `auto`. Ask for a GPU before anything else computes with libtorch in the
   * process: libtorch decides at its first run whether it has CUDA, and keeps to that.
   */
  readonly device?: DeviceName | undefined;
  /** Threads to compute with. Default: the CPUs this process may use, by affinity and control groups. */
  readonly threads?: number | undefined;
  /**
   * What computes. `fused` runs a whole program block by block in cache, on the CPU and in float32. `torch` runs it node
   * by node through libtorch, on any device and in both precisions. `autograd` lets libtorch differentiate the loss
   * itself, for comparison. `auto`, the default, is `fused` wherever that can run a program, else `torch`.
   */
  readonly executor?: "auto" | ExecutorName | undefined;
}

/** What `fused` could not run. */
export interface Fallback {
  /** Name of the loss. */
  readonly loss: string;
  /** The ops that `fused` lacks. */
  readonly ops: readonly string[];
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
  /** What runs float32 programs; see `EngineOptions.executor`. Float64 ones always run on `torch`, or on `autograd`. */
  readonly executor: ExecutorName;
  /** Losses that ran on `torch` so far because `fused` lacks an op of theirs. */
  readonly fallbacks: readonly Fallback[];
  readonly cuda: CudaInfo;
}

export interface RunOptions<P extends LossParams = LossParams, D extends Dtype = Dtype> {
  /** Values of the loss's parameters that differ from its defaults. */
  readonly params?: GivenParams<P>;
  /** Type of the gradients. Default: `float32`. */
  readonly dtype?: D | undefined;
  /**
   * What to do about samples whose values make the loss or a gradient infinite or NaN. `throw`, the default, rejects with
   * `NonFiniteError`. `zero` computes again as if such a sample had no trained token: its gradients are 0 and means still
   * count it. `skip` computes without such samples and all others of their groups. A value that no sample is to blame for
   * always throws.
   */
  readonly nonFinite?: "throw" | "zero" | "skip" | undefined;
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
  /** The samples that were set aside because their values are not finite; see `RunOptions.nonFinite`. */
  readonly nonFiniteSamples: readonly number[];
  /** What computed. */
  readonly executor: ExecutorName;
}

/** Options of `Engine.inspect`. */
export interface InspectOptions<P extends LossParams = LossParams> {
  readonly params?: GivenParams<P>;
  readonly signal?: AbortSignal | undefined;
}

/** Options of `Engine.checkGradients`. */
export interface CheckGradientsOptions<P extends LossParams = LossParams>
  extends InspectOptions<P>,
    CheckOptions {}

const MAX_THREADS = 4096;
const DTYPES: readonly unknown[] = ["float32", "bfloat16", "float64"];
const POLICIES: readonly unknown[] = ["throw", "zero", "skip"];
const EXECUTORS: readonly unknown[] = ["auto", "fused", "torch", "autograd"];

/** Runs losses. One run at a time, in the order of the calls, on a thread of its own; any number may wait. */
export class Engine {
  readonly #info: Omit<EngineInfo, "fallbacks">;
  readonly #fallbacks: Fallback[] = [];
  readonly #chosen: "auto" | ExecutorName;
  readonly #runner: Runner;

  /** Use `createEngine`. */
  constructor(runner: Runner, info: Omit<EngineInfo, "fallbacks">, chosen: "auto" | ExecutorName) {
    this.#runner = runner;
    this.#info = info;
    this.#chosen = chosen;
  }

  get info(): EngineInfo {
    return { ...this.#info, fallbacks: [...this.#fallbacks] };
  }

  /** Whether `dispose` was called. */
  get disposed(): boolean {
    return this.#runner.disposed;
  }

  /** What computes a program: what was asked for, or, of `auto`, the fastest that can. */
  #executorFor(name: string, program: Program, precision: Precision): ExecutorName {
    const { executor } = this.#info;
    if (executor !== "fused") return executor;
    if (precision === "float64") {
      if (this.#chosen === "auto") return "torch";
      throw new InputError("batch.precision", 'expected "float32" for the fused executor, got "float64"');
    }
    const { lacking } = compiledOf(program);
    if (lacking.length === 0) return executor;
    if (this.#chosen !== "auto") {
      throw new InputError("loss", `${name}: the fused executor lacks ${lacking.join(", ")}`);
    }
    if (!this.#fallbacks.some(({ loss }) => loss === name))
      this.#fallbacks.push({ loss: name, ops: lacking });
    return "torch";
  }

  /**
   * Computes a loss and its gradients, d loss / d logprob.
   *
   * @throws {InputError} if the batch lacks an input of the loss or a parameter is unknown.
   * @throws {NonFiniteError} if the loss or a gradient is not finite; see `RunOptions.nonFinite`.
   * @throws {AbortError} when the signal fires; a kernel that is running is finished in the background.
   * @throws {DisposedError} if the engine is disposed, before or while it runs.
   */
  async run<I extends LossInputs, P extends LossParams, M extends string, D extends Dtype = "float32">(
    loss: Loss<I, P, M>,
    batch: Batch,
    options: RunOptions<P, D> = {},
  ): Promise<RunResult<M, D>> {
    if (this.disposed) throw new DisposedError("engine");
    checkLoss(loss);
    const contents = contentsOf(batch);
    checkNames("options", options, ["params", "dtype", "nonFinite", "signal"]);
    const { dtype = "float32" as D, nonFinite = "throw", signal } = options;
    if (!DTYPES.includes(dtype)) {
      throw new InputError("dtype", `expected "float32", "bfloat16" or "float64", got ${describe(dtype)}`);
    }
    if (!POLICIES.includes(nonFinite)) {
      throw new InputError("nonFinite", `expected "throw", "zero" or "skip", got ${describe(nonFinite)}`);
    }
    checkSignal(signal);
    const { program, graph } = loss;
    const params = readParams(loss, options.params);
    const executor = this.#executorFor(loss.name, program, contents.precision);
    const compute = (given: BatchContents) =>
      this.#runner.run({
        program,
        graph,
        contents: given,
        inputs: readInputs(loss, given, params),
        dtype,
        executor,
        signal,
      });

    const aside = new Set<number>();
    let current = contents;
    let kept: readonly number[] | undefined;
    for (;;) {
      try {
        const { loss: value, metrics, gradients } = await compute(current);
        const rows = new Gradients(gradients, dtype, current.layout.rowOffsets);
        return {
          loss: value,
          metrics: Object.fromEntries(loss.metrics.map((name, i) => [name, metrics[i]!])) as Record<
            M,
            number
          >,
          gradients: kept === undefined ? rows : restored(rows, kept, contents.layout),
          emptySamples: current.layout.emptySamples,
          nonFiniteSamples: [...aside].sort((a, b) => a - b),
          executor,
        };
      } catch (error) {
        const blamed = error instanceof NonFiniteError && nonFinite !== "throw" ? error.samples : [];
        if (blamed.length === 0) throw error;
        for (const sample of blamed) aside.add(kept?.[sample] ?? sample);
        if (nonFinite === "zero") current = emptied(contents, aside);
        else ({ contents: current, kept } = without(contents, aside));
        if (current.layout.tokens === 0) throw error;
      }
    }
  }

  /**
   * Looks into a loss: its named intermediate values, and of each named term its value and the norm of its own gradient.
   * A loss names them by returning `values` and `terms`.
   *
   * @throws as `run` does.
   */
  async inspect<
    I extends LossInputs,
    P extends LossParams,
    M extends string,
    T extends string,
    V extends string,
  >(loss: Loss<I, P, M, T, V>, batch: Batch, options: InspectOptions<P> = {}): Promise<Inspection<T, V>> {
    if (this.disposed) throw new DisposedError("engine");
    checkLoss(loss);
    const contents = contentsOf(batch);
    checkNames("options", options, ["params", "signal"]);
    checkSignal(options.signal);
    const program = inspectionOf(loss);
    const executed = await this.#runner.run({
      program,
      graph: loss.graph,
      contents,
      inputs: readInputs(loss, contents, readParams(loss, options.params)),
      dtype: contents.precision,
      executor: this.#computing(loss, program, contents.precision),
      signal: options.signal,
    });
    return inspectionFrom(program, contents, executed) as Inspection<T, V>;
  }

  /** What computes programs that libtorch's autograd cannot: those with more gradients than that of the loss. */
  #computing(loss: Loss, program: Program, precision: Precision): ExecutorName {
    const executor = this.#executorFor(loss.name, program, precision);
    return executor === "autograd" ? "torch" : executor;
  }

  /**
   * Compares the gradients of a loss, for each of its inputs, with central differences in float64. It runs the loss twice
   * for every element that it tries: meant for small batches.
   *
   * @throws as `run` does.
   */
  async checkGradients<I extends LossInputs, P extends LossParams, M extends string>(
    loss: Loss<I, P, M>,
    batch: Batch,
    options: CheckGradientsOptions<P> = {},
  ): Promise<GradientCheck> {
    if (this.disposed) throw new DisposedError("engine");
    checkLoss(loss);
    const contents = contentsOf(batch);
    checkNames("options", options, ["params", "signal", "step", "tolerance", "elements"]);
    const { params, signal, ...rest } = options;
    checkSignal(signal);
    const wide = { ...contents, precision: "float64" as const };
    const inputs: Floats[] = readInputs(loss, contents, readParams(loss, params)).map((values) =>
      Float64Array.from(values),
    );
    const graph: Graph = loss.graph;
    return checkInputs(loss, wide, inputs, rest, (task) =>
      this.#runner.run({ ...task, graph, dtype: "float64", executor: "torch", signal }),
    );
  }

  /** Ends the thread and rejects what has not settled with `DisposedError`. Safe to call twice. */
  dispose(): void {
    this.#runner.dispose();
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
  checkNames("engine", options, ["device", "threads", "executor"]);
  const { device = "auto", threads, executor = "auto" } = options;
  if (typeof device !== "string" || !/^(auto|cpu|cuda(:\d+)?)$/.test(device)) {
    throw new InputError("device", `expected "cpu", "cuda", "cuda:N" or "auto", got ${describe(device)}`);
  }
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS)) {
    throw new InputError(
      "threads",
      `expected a whole number from 1 to ${MAX_THREADS}, got ${describe(threads)}`,
    );
  }
  if (!EXECUTORS.includes(executor)) {
    throw new InputError(
      "executor",
      `expected "auto", "fused", "torch" or "autograd", got ${describe(executor)}`,
    );
  }
  if (executor === "fused" && String(device).startsWith("cuda")) {
    throw new InputError(
      "executor",
      `expected "torch" or "auto" on ${device}, got "fused", which is for the CPU`,
    );
  }
  const binding = loadBinding();
  const used = threads ?? binding.availableCpus;
  // `fused` computes on the CPU: no GPU is looked for.
  const wanted = executor === "fused" ? "cpu" : device;
  const native = new binding.Engine({ device: wanted, threads: used });
  let opened: NativeOpened;
  try {
    opened = await native.open().promise;
  } catch (error) {
    native.dispose();
    throw typedError(error);
  }
  const { fallbackReason } = opened;
  const info = {
    device: opened.device,
    requestedDevice: device,
    ...(fallbackReason !== undefined && { fallbackReason }),
    libtorch: binding.libtorchVersion,
    threads: used,
    executor: executor !== "auto" ? executor : opened.device === "cpu" ? "fused" : "torch",
    cuda: opened.cuda,
  } as const;
  return new Engine(new Runner(native), info, executor);
}
