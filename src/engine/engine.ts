// The engine: runs losses over batches on a thread of its own.
import { InputError } from "../errors.ts";
import { compile } from "../loss/compile.ts";
import type { Loss, LossInputs, LossParams } from "../loss/define.ts";
import type { Graph, Program } from "../loss/graph.ts";
import { checkNames } from "../names.ts";
import { checkSignal, contentsOf, inputArrays, readParams } from "./arguments.ts";
import type { Batch, BatchContents } from "./batch.ts";
import { type Dtype, type ExecutorName, loadBinding, type NativeOpened, type Precision } from "./binding.ts";
import { checkInputs, type GradientCheck } from "./check-gradients.ts";
import { DisposedError, NonFiniteError, typedError } from "./errors.ts";
import { Gradients, takeBuffer } from "./gradients.ts";
import { checkLoss } from "./inputs.ts";
import { type Inspection, inspectionFrom, inspectionOf } from "./inspection.ts";
import {
  type CheckGradientsOptions,
  type EngineInfo,
  type EngineOptions,
  type Fallback,
  type InspectOptions,
  type RunOptions,
  type RunResult,
  readEngineOptions,
  readRunOptions,
} from "./options.ts";
import type { Floats } from "./pack.ts";
import { compiledOf } from "./program.ts";
import { Runner } from "./runner.ts";
import { emptied, restored, without } from "./set-aside.ts";

const plainPrograms = new WeakMap<Graph, Program>();

function plainProgramOf(graph: Graph): Program {
  const program = plainPrograms.get(graph) ?? compile(graph, { plain: true });
  plainPrograms.set(graph, program);
  return program;
}

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
    const { params: given, dtype, nonFinite, into, signal } = readRunOptions(options);
    const { graph } = loss;
    const params = readParams(loss, given);
    const executor = this.#executorFor(loss.name, loss.program, contents.precision);
    // The oracle does not rely on what the compiler makes of a loss.
    const program = executor === "autograd" ? plainProgramOf(graph) : loss.program;
    let memory: ArrayBuffer | undefined;
    const compute = (given: BatchContents) => {
      const inputs = inputArrays(loss, given, params);
      // Where groups are left out, the rows are put together afterwards.
      const whole = given.layout.rowOffsets === contents.layout.rowOffsets;
      // Taken once, and not before the arguments are known to be right.
      if (whole && into !== undefined) memory ??= takeBuffer(into, given.layout.rowOffsets);
      const task = { program, graph, contents: given, inputs, dtype, executor, signal };
      return this.#runner.run({ ...task, memory: whole ? memory : undefined });
    };

    if (nonFinite === "skip" && graph.nodes.some(({ op }) => op === "gather")) {
      throw new InputError(
        "nonFinite",
        'expected "throw" or "zero" for a loss that gathers samples by their number',
      );
    }
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
        const before = aside.size;
        for (const sample of blamed) aside.add(kept?.[sample] ?? sample);
        // Nobody is to blame, or only those who have no trained token any more.
        if (aside.size === before) throw error;
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
      inputs: inputArrays(loss, contents, readParams(loss, options.params)),
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
    const inputs: Floats[] = inputArrays(loss, contents, readParams(loss, params)).map((values) =>
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
  const { device, threads, executor } = readEngineOptions(options);
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
