// The full type of the engine's addon.
import { loadAddon } from "../addon.ts";
import type { Axis, Kind } from "../loss/graph.ts";

/** A checked program; opaque. */
export type NativeProgram = object & { readonly __nativeProgram: never };

export interface NativeProgramSpec {
  readonly nodes: readonly {
    readonly op: string;
    /** The ATen operator of an elementwise op; absent of structural ops. */
    readonly aten?: string;
    readonly inputs: readonly number[];
    readonly attributes: Readonly<Record<string, number>>;
    readonly axis: Axis;
    readonly kind: Kind;
  }[];
  /** Nodes of the inputs, in the order in which a request brings them. */
  readonly inputs: readonly number[];
  /** Place among `inputs` of the one to differentiate. */
  readonly variable: number;
  readonly loss: number;
  readonly metrics: readonly number[];
  /** The node that is d loss / d variable, of axis token. */
  readonly gradient: number;
  /** How many nodes the loss and the metrics need; those behind serve the gradient alone. */
  readonly forward: number;
  /** Further nodes whose values a run gives back. */
  readonly outputs: readonly number[];
}

/**
 * `fused`: in few passes over the batch, in float32 on the CPU; it refuses what it cannot run. `torch`: node by node
 * through libtorch. `autograd`: the loss node by node, its gradient by libtorch's autograd; the program's own
 * gradient is not computed, nor outputs that belong to it.
 */
export type ExecutorName = "fused" | "torch" | "autograd";

export type Precision = "float32" | "float64";
export type Dtype = "float32" | "bfloat16" | "float64";

/**
 * One run. The arrays are read in place and `output` and `outputs` are written while the promise is pending: their buffers
 * must not be changed, transferred or detached until it settles.
 */
export interface NativeRequest {
  /** Positions in each sample's row. */
  readonly rowLengths: Uint32Array;
  /** Runs of trained tokens in each sample's row. */
  readonly runCounts: Uint32Array;
  /** First position in its row, and length, of each run. */
  readonly runs: Uint32Array;
  /** Samples in each group. */
  readonly groupSizes: Uint32Array;
  /** Token inputs in the type that `precision` names, all others Float64Array. */
  readonly inputs: readonly (Float32Array | Float64Array)[];
  readonly precision: Precision;
  /** One value of `dtype` per position of all rows. */
  readonly output: ArrayBuffer;
  readonly dtype: Dtype;
  /** One array per output of the program, written like `output`: one value per element of its axis, 0 and 1 of a mask. */
  readonly outputs: readonly Float64Array[];
  readonly executor: ExecutorName;
}

export interface NativeResult {
  readonly loss: number;
  /** In the order of the program's metrics. */
  readonly metrics: readonly number[];
}

export interface NativeEngine {
  /** Chooses the device. The first call to come, and the only one of its kind. */
  open(): { readonly id: number; readonly promise: Promise<NativeOpened> };
  run(
    program: NativeProgram,
    request: NativeRequest,
  ): { readonly id: number; readonly promise: Promise<NativeResult> };
  /** Asks a call to stop; its promise is then rejected with `ERR_ABORTED`, soon. Unknown ids are passed over. */
  cancel(id: number): void;
  /** Cancels all calls and ends the thread when they have settled. Safe to call twice. */
  dispose(): void;
}

/** What is known of CUDA in this process. */
export interface CudaInfo {
  /**
   * `not-built`: libtorch has no CUDA part. `not-opened`: it has one that nobody asked for. `open-failed`: its libraries
   * do not load. `no-driver`, `old-driver`, `no-device`: it loads but finds no usable GPU. `ready`.
   */
  readonly state:
    | "not-built"
    | "not-opened"
    | "open-failed"
    | "no-driver"
    | "old-driver"
    | "no-device"
    | "ready";
  /** Why CUDA cannot be used, in words. */
  readonly reason?: string;
  /** Number of GPUs when ready, else 0. */
  readonly devices: number;
}

export interface NativeOpened {
  readonly device: string;
  readonly fallbackReason?: string;
  readonly cuda: CudaInfo;
}

/** What the addon throws and rejects with: an `Error` with a code and the facts of that code. */
export interface NativeFault {
  readonly message?: string;
  readonly code?: string;
  readonly reason?: string;
  readonly node?: number;
  readonly loss?: number;
  readonly value?: number;
  readonly sample?: number;
  readonly position?: number;
  readonly group?: number;
  readonly operands?: readonly number[];
  /** Of a value that is not finite: all samples, ascending, that such values began in. */
  readonly samples?: readonly number[];
  /** 1 where a value of the whole batch is not finite by itself. */
  readonly shared?: number;
  /** Of an index out of range: its element, and how many values there are. */
  readonly element?: number;
  readonly size?: number;
}

/** What is alive in this process, on all of its threads. */
export interface LiveObjects {
  /** Engines whose thread has not ended. */
  readonly engines: number;
  /** Compiled programs that JavaScript or a run holds. */
  readonly programs: number;
  /** Calls that wait or run. A call that settled is let go of a moment later. */
  readonly runs: number;
}

export interface Binding {
  /** Version of the libtorch that is loaded, as `major.minor.patch`. */
  readonly libtorchVersion: string;
  /** CPUs that this process may really use, by affinity and control groups. */
  readonly availableCpus: number;
  compile(program: NativeProgramSpec): NativeProgram;
  /** Names of the program's ops that `fused` has no kernel for: it runs a program only if there are none. */
  lacking(program: NativeProgram): string[];
  /** For tests: nothing may be left behind. */
  liveObjects(): LiveObjects;
  readonly Engine: new (options: { readonly device: string; readonly threads: number }) => NativeEngine;
}

/** The addon; see `loadAddon` for its errors. */
export const loadBinding = (): Binding => loadAddon<Binding>("tokengrad");
