// Calls of ops: checks the operands, finds the axis of the result, adds the node. Gives tensors their methods.
import { describe } from "../errors.ts";
import { faultOfNames } from "../names.ts";
import { coarserThan, fineness, finest } from "./axes.ts";
import { LossError } from "./errors.ts";
import type { Axis, Kind } from "./graph.ts";
import { OPS, type OpName, type OpRow, SIGNATURES, type SignatureName } from "./ops.ts";
import { type CumsumOptions, describeOperand, Symbolic } from "./tensor.ts";
import type { Trace } from "./trace.ts";

/** What a call comes to: operands before they are broadcast, the axis of the result, static numbers. */
interface Parts {
  readonly operands: readonly unknown[];
  readonly axis: (operands: readonly number[]) => Axis;
  readonly attributes?: Record<string, number>;
}

/** One call of an op as a method. */
class Call {
  readonly name: OpName;
  readonly self: Symbolic;
  readonly args: readonly unknown[];
  readonly trace: Trace;
  readonly source: string | undefined;

  constructor(name: OpName, self: Symbolic, args: readonly unknown[]) {
    this.name = name;
    this.self = self;
    this.args = args;
    this.trace = Symbolic.traceOf(self)!;
    this.source = this.trace.source();
  }

  refuse(code: "ERR_AXIS" | "ERR_TRACE", problem: string): never {
    throw new LossError(code, `${this.name}${problem}`, this.source);
  }

  /** The node of one operand. */
  node(value: unknown, place: number, kind: Kind | "any"): number {
    if (typeof value === "number" && kind === "number") {
      if (Number.isNaN(value)) this.refuse("ERR_TRACE", `: operand ${place} is NaN`);
      return this.trace.constant(value, this.source);
    }
    if (!(value instanceof Symbolic) || (kind !== "any" && value.kind !== kind)) {
      const expected = kind === "mask" ? "a mask" : "a tensor or a number";
      this.refuse("ERR_TRACE", `: operand ${place}: expected ${expected}, got ${describeOperand(value)}`);
    }
    if (Symbolic.traceOf(value) !== this.trace) {
      this.refuse("ERR_TRACE", `: operand ${place} belongs to another loss`);
    }
    return Symbolic.indexOf(value);
  }

  /** Refuses any axis of the tensor itself but some. */
  only(...axes: readonly Axis[]): void {
    if (axes.includes(this.self.axis)) return;
    const expected = axes.map((axis) => `"${axis}"`).join(" or ");
    this.refuse("ERR_AXIS", `: expected a tensor of axis ${expected}, got "${this.self.axis}"`);
  }

  /** The coarser axis that an argument names; the batch where it names none. */
  coarser(to: unknown): Axis {
    const from = this.self.axis;
    const allowed = coarserThan(from);
    const axis = to === undefined ? "batch" : (to as Axis);
    if (!allowed.includes(axis)) {
      const expected = allowed.map((coarser) => `"${coarser}"`).join(" or ") || "a tensor of a finer axis";
      const got = describe(to === undefined && allowed.length === 0 ? from : to);
      this.refuse("ERR_AXIS", ` of a tensor of axis "${from}": expected ${expected}, got ${got}`);
    }
    return axis;
  }

  /** A static number. */
  number(value: unknown, expected: string, right: (value: number) => boolean): number {
    if (typeof value === "number" && right(value)) return value;
    this.refuse("ERR_TRACE", `: expected ${expected}, got ${describeOperand(value)}`);
  }

  /** An object of options, all of which are known. */
  options<T extends object>(value: unknown, known: readonly string[]): T {
    const fault = value === undefined ? undefined : faultOfNames(value, known);
    if (fault !== undefined) {
      this.refuse("ERR_TRACE", `${fault.name === undefined ? "" : `: ${fault.name}`}: ${fault.problem}`);
    }
    return (value ?? {}) as T;
  }

  add(): Symbolic {
    const signature = SIGNATURES[OPS[this.name].signature];
    const { operands, axis, attributes = {} } = PARTS[OPS[this.name].signature](this);
    const nodes = signature.operands.map((kind, place) => this.node(operands[place], place, kind));
    const to = axis(nodes);
    // A reduction and a gather read their operands as they are; all others want them on one axis.
    const inputs =
      signature.axis === "finest" || signature.axis === "within"
        ? nodes.map((node) => this.trace.spread(node, to, this.source))
        : nodes;
    const node = { op: this.name, inputs, axis: to, kind: signature.result, attributes };
    return new Symbolic(this.trace, this.trace.add(node, this.source));
  }
}

const elementwise = (call: Call, operands: readonly unknown[] = [call.self, ...call.args]): Parts => ({
  operands,
  axis: (nodes) => finest(nodes.map((node) => call.trace.node(node).axis)),
});
const along = (
  call: Call,
  attributes: Record<string, number>,
  operands: readonly unknown[] = [call.self],
) => ({
  operands,
  axis: () => call.self.axis,
  attributes,
});
const reduction = (call: Call, attributes: Record<string, number> = {}): Parts => {
  const axis = call.coarser(call.args[0]);
  return { operands: [call.self], axis: () => axis, attributes };
};
const within = (call: Call, axis: unknown) => ({ within: fineness(call.coarser(axis)) });
const isWhole = (value: number) => Number.isInteger(value) && Math.abs(value) < 2 ** 31;

/** How the arguments of each kind of op are read. */
const PARTS: Record<SignatureName, (call: Call) => Parts> = {
  unary: elementwise,
  binary: elementwise,
  clamp: (call) => elementwise(call, [call.self, call.args[0] ?? -Infinity, call.args[1] ?? Infinity]),
  power: (call) => ({
    ...elementwise(call, [call.self]),
    attributes: { exponent: call.number(call.args[0], "a finite number", Number.isFinite) },
  }),
  predicate: elementwise,
  comparison: elementwise,
  connective: elementwise,
  negation: elementwise,
  select: elementwise,
  indicator: elementwise,
  reduction: (call) => reduction(call),
  statistic: (call) => {
    const { correction = 0 } = call.options<{ correction?: unknown }>(call.args[1], ["correction"]);
    const checked = call.number(correction, "a correction of 0 or 1", (x) => x === 0 || x === 1);
    return reduction(call, { correction: checked });
  },
  count: (call) => reduction(call),
  normalization: (call) => along(call, within(call, call.args[0])),
  order: (call) => {
    call.only("sample", "group");
    return along(call, within(call, call.args[0]));
  },
  top: (call) => ({
    ...along(call, within(call, call.args[1]), [call.self, call.args[0]]),
    axis: (nodes) => {
      const { axis } = call.trace.node(nodes[1]!);
      if (coarserThan(call.self.axis).includes(axis)) return call.self.axis;
      return call.refuse("ERR_AXIS", `: expected a number or a coarser tensor as k, got axis "${axis}"`);
    },
  }),
  scan: (call) => {
    call.only("token");
    const options = call.options<CumsumOptions>(call.args[0], ["reverse", "exclusive", "discount"]);
    const { reverse = false, exclusive = false, discount = 1 } = options;
    for (const flag of [reverse, exclusive]) {
      if (typeof flag !== "boolean")
        call.refuse("ERR_TRACE", `: expected true or false, got ${describe(flag)}`);
    }
    return along(call, {
      reverse: +reverse,
      exclusive: +exclusive,
      discount: call.number(discount, "a finite discount", Number.isFinite),
    });
  },
  shift: (call) => {
    call.only("token");
    return along(call, { offset: call.number(call.args[0] ?? 1, "a whole number of tokens", isWhole) });
  },
  member: (call) => {
    call.only("sample");
    const index = call.number(call.args[0], "an index of 0 or more", (x) => isWhole(x) && x >= 0);
    return { operands: [call.self], axis: () => "group", attributes: { index } };
  },
  gather: (call) => {
    call.only("sample", "group");
    return {
      operands: [call.self, call.args[0]],
      axis: (nodes) => {
        const { axis } = call.trace.node(nodes[1]!);
        if (axis === "sample" || axis === "group") return axis;
        return call.refuse("ERR_AXIS", `: expected an index of axis "sample" or "group", got "${axis}"`);
      },
    };
  },
};

for (const name of Object.keys(OPS) as OpName[]) {
  Object.defineProperty(Symbolic.prototype, name, {
    value(this: Symbolic, ...args: unknown[]) {
      const call = new Call(name, this, args);
      const wanted = SIGNATURES[(OPS[name] as OpRow).signature].operands[0];
      if (wanted !== "any" && this.kind !== wanted) {
        const expected = wanted === "mask" ? "a mask" : "a tensor";
        call.refuse("ERR_TRACE", `: expected ${expected}, got ${describeOperand(this)}`);
      }
      return call.add();
    },
  });
}
