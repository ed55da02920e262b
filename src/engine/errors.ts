// Errors of the engine, and how the addon's plain errors become them.
import { AbortError, InputError, NativeError, TokengradError } from "../errors.ts";
import type { Graph, Program } from "../loss/graph.ts";
import type { CudaInfo, NativeFault } from "./binding.ts";

/** What stands between the process and a GPU; see `CudaInfo`. */
export type DeviceReason = Exclude<CudaInfo["state"], "not-opened" | "ready">;

/** The device that was asked for cannot be had. */
export class DeviceError extends TokengradError {
  readonly reason: DeviceReason;

  constructor(message: string, reason: DeviceReason) {
    super("ERR_DEVICE", message);
    this.reason = reason;
  }
}

/** The object was used after its `dispose()`, or disposed of while it worked. */
export class DisposedError extends TokengradError {
  constructor(what: string) {
    super("ERR_DISPOSED", `the ${what} is disposed`);
  }
}

/** A batch has no trained token at all: there is nothing to compute a loss from. */
export class EmptyBatchError extends TokengradError {
  constructor(samples: number) {
    super("ERR_EMPTY_BATCH", `weights: expected at least one weight above 0 in ${samples} samples, got none`);
  }
}

interface NonFiniteFacts {
  /** The value: NaN or an infinity, or a gradient too large for the dtype asked for. */
  readonly value: number;
  /** The first op whose value is not finite although its operands are; undefined if only a gradient is not. */
  readonly op?: string | undefined;
  /** `file:line:column` of the code that made the op, where known. */
  readonly source?: string | undefined;
  /** What the value is the result of, where that is not the op itself but a part of it or of its gradient. */
  readonly computed?: string | undefined;
  /** The op's operands at this place, for an elementwise op. */
  readonly operands?: readonly number[] | undefined;
  /** Index of the sample, where the value belongs to a token or a sample. */
  readonly sample?: number | undefined;
  /** Index in the sample's full row, where the value belongs to a token. */
  readonly position?: number | undefined;
  /** Index of the group, where the value belongs to a group. */
  readonly group?: number | undefined;
  /** What the loss came to: itself finite where only gradients are not. */
  readonly loss?: number | undefined;
  /** All samples that such values began in; empty where one belongs to the whole batch. */
  readonly samples?: readonly number[];
}

/** The loss or a gradient is not finite. Names the place and the op where that began. */
export class NonFiniteError extends TokengradError {
  readonly value: number;
  readonly op: string | undefined;
  readonly source: string | undefined;
  readonly operands: readonly number[] | undefined;
  readonly sample: number | undefined;
  readonly position: number | undefined;
  readonly group: number | undefined;
  readonly loss: number | undefined;
  readonly samples: readonly number[];

  constructor(what: string, expected: string, facts: NonFiniteFacts) {
    const places = (["group", "sample", "position"] as const).flatMap((name) =>
      facts[name] === undefined ? [] : [`${name} ${facts[name]}`],
    );
    const from =
      facts.operands === undefined ? "" : ` = ${facts.computed ?? facts.op}(${facts.operands.join(", ")})`;
    super(
      "ERR_NON_FINITE",
      `${[what, ...places].join(", ")}: expected ${expected}, got ${facts.value}${from}`,
    );
    this.value = facts.value;
    this.op = facts.op;
    this.source = facts.source;
    this.operands = facts.operands;
    this.sample = facts.sample;
    this.position = facts.position;
    this.group = facts.group;
    this.loss = facts.loss;
    this.samples = facts.samples ?? [];
  }
}

/** What was running when the addon failed. */
export interface Running {
  readonly program: Program;
  readonly graph: Graph;
  readonly dtype: string;
}

function nonFiniteError(fault: NativeFault, { program, graph, dtype }: Running): NonFiniteError {
  const { value = Number.NaN, sample, position, group, operands, shared, loss } = fault;
  const samples = shared === undefined ? (fault.samples ?? []) : [];
  const place = { value, sample, position, group, samples, loss };
  if (fault.node === undefined) {
    return Number.isFinite(value)
      ? new NonFiniteError("gradient", `a value that ${dtype} can hold`, place)
      : new NonFiniteError("gradient", "a finite value", place);
  }
  const node = program.nodes[fault.node]!;
  // The op as the loss wrote it; what computes it may be made of others.
  const { op, source } = graph.nodes[node.origin]!;
  // A number that was finite until it was broadcast: too large for float32.
  const holder = node.op === "spread" ? node.inputs[0]! : fault.node;
  const input = program.inputs.find((input) => input.node === holder);
  const part = fault.node < program.forward ? op : `the gradient of ${op}`;
  const what = input?.name ?? (source === undefined ? part : `${part} (at ${source})`);
  const own = node.op === op && fault.node < program.forward;
  return new NonFiniteError(what, "a finite value", {
    ...place,
    op,
    source,
    operands,
    computed: own ? undefined : node.op,
  });
}

/** The typed error for one that the addon threw or rejected with. `run` tells what was running, if anything was. */
export function typedError(error: unknown, run?: Running): Error {
  const fault = error as NativeFault;
  const { message = String(error) } = fault;
  switch (fault.code) {
    case "ERR_DEVICE":
      return new DeviceError(message, fault.reason as DeviceReason);
    case "ERR_DISPOSED":
      return new DisposedError("engine");
    case "ERR_ABORTED":
      return new AbortError(message);
    case "ERR_GROUP_SIZE":
      return new InputError("groups", message);
    case "ERR_INDEX":
      return new InputError("gather", message);
    case "ERR_NON_FINITE":
      if (run !== undefined) return nonFiniteError(fault, run);
      return new NativeError(message, { cause: error });
    default:
      return new NativeError(message, { cause: error });
  }
}
