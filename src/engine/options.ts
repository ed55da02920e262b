// What engines are made and called with, and what runs give back.
import { describe, InputError } from "../errors.ts";
import type { LossParams } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { checkSignal, type GivenParams } from "./arguments.ts";
import type { CudaInfo, Dtype, ExecutorName } from "./binding.ts";
import type { CheckOptions } from "./check-gradients.ts";
import { Gradients } from "./gradients.ts";

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
  /**
   * Gradients of an earlier run, of the same dtype and with rows of the same lengths, that are no longer needed, nor
   * being sent: this run's are written into their memory, and the old ones are empty from then on. Fresh memory for each step costs about
   * as much as computing. Not used where `skip` leaves groups out.
   */
  readonly into?: Gradients<D> | undefined;
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

/** Checks the options of a new engine and fills in their defaults. */
export function readEngineOptions(options: EngineOptions) {
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
  return { device, threads, executor };
}

/** Checks the options of a run and fills in their defaults. */
export function readRunOptions<P extends LossParams, D extends Dtype>(options: RunOptions<P, D>) {
  checkNames("options", options, ["params", "dtype", "nonFinite", "into", "signal"]);
  const { params, dtype = "float32" as D, nonFinite = "throw", into, signal } = options;
  if (!DTYPES.includes(dtype)) {
    throw new InputError("dtype", `expected "float32", "bfloat16" or "float64", got ${describe(dtype)}`);
  }
  if (!POLICIES.includes(nonFinite)) {
    throw new InputError("nonFinite", `expected "throw", "zero" or "skip", got ${describe(nonFinite)}`);
  }
  if (into !== undefined && !(into instanceof Gradients && into.dtype === dtype)) {
    throw new InputError("into", `expected ${dtype} gradients of an earlier run, got ${describe(into)}`);
  }
  checkSignal(signal);
  return { params, dtype, nonFinite, into, signal };
}
