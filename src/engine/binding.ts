// The native addon: its full type, and the one place that loads it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Axis, Kind } from "../loss/graph.ts";
import { limitSpinning } from "../openmp.ts";
import { LoadError, typedError } from "./errors.ts";

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
}

export type Precision = "float32" | "float64";
export type Dtype = "float32" | "bfloat16" | "float64";

/**
 * One run. The arrays are read in place and `output` is written while the promise is pending: their buffers must not be
 * changed, transferred or detached until it settles.
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
  readonly found?: string;
  readonly expected?: string;
  readonly reason?: string;
  readonly node?: number;
  readonly value?: number;
  readonly sample?: number;
  readonly position?: number;
  readonly group?: number;
  readonly operands?: readonly number[];
}

export interface Binding {
  /** Version of the libtorch that is loaded, as `major.minor.patch`. */
  readonly libtorchVersion: string;
  /** Version of libtorch that the addon was compiled with. */
  readonly compiledVersion: string;
  /** CPUs that this process may really use, by affinity and control groups. */
  readonly availableCpus: number;
  compile(program: NativeProgramSpec): NativeProgram;
  readonly Engine: new (options: { readonly device: string; readonly threads: number }) => NativeEngine;
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Where an addon may lie: one built here first, then one that came with the package. */
function candidates(): string[] {
  const prebuilt = join(root, "prebuilds", `${process.platform}-${process.arch}`);
  const shipped = existsSync(prebuilt) ? readdirSync(prebuilt) : [];
  return [
    join(root, "build", "Release", "tokengrad.node"),
    ...shipped.filter((name) => /^tokengrad.*\.node$/.test(name)).map((name) => join(prebuilt, name)),
  ];
}

/** The version that the libtorch beside the addon says it has: a wrong one often shows as a missing symbol only. */
function libtorchBeside(): string {
  const folder = join(root, "build", "libtorch");
  if (!existsSync(folder)) return `there is no libtorch at ${folder}`;
  const says = ["build-version", "version.py"].map((name) => join(folder, name)).find(existsSync);
  const version = says && readFileSync(says, "utf8").match(/\d+\.\d+\.\d+[\w+.]*/)?.[0];
  return `the libtorch at ${folder} has version ${version ?? "unknown"}`;
}

let binding: Binding | undefined;

/**
 * Loads the addon, once.
 *
 * @throws {LoadError} if none loads, {LibtorchVersionError} if libtorch is of another version.
 */
export function loadBinding(): Binding {
  if (binding !== undefined) return binding;
  limitSpinning();
  const require = createRequire(import.meta.url);
  const attempts: { path: string; reason: string }[] = [];
  let cause: unknown;
  for (const path of candidates()) {
    if (!existsSync(path)) {
      attempts.push({ path, reason: "there is no such file" });
      continue;
    }
    try {
      binding = require(path) as Binding;
      return binding;
    } catch (error) {
      if ((error as NativeFault).code === "ERR_LIBTORCH_VERSION") throw typedError(error);
      attempts.push({ path, reason: (error as Error).message });
      cause = error;
    }
  }
  throw new LoadError(attempts, `${libtorchBeside()}; to build the addon: npx node-gyp rebuild`, { cause });
}
