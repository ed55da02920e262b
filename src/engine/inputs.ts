// The inputs of a batch: read in every way that their shape allows, or as a loss declares them; found by name and axis.
import { describe, InputError } from "../errors.ts";
import { Loss } from "../loss/define.ts";
import type { Axis } from "../loss/graph.ts";
import { isRecord, nearestName } from "../names.ts";
import type { Pace } from "../pace.ts";
import { isNumberList, isRowList } from "../rows/rows.ts";
import type { Precision } from "./binding.ts";
import { type Layout, sizeOf } from "./layout.ts";
import { copyFlat, type Floats, packRows } from "./pack.ts";

export type InputAxis = Exclude<Axis, "batch">;

/** A copy of one input for each reading that its shape allows. */
export interface StoredInput {
  /** In the batch's precision, packed. */
  readonly token?: Floats;
  readonly sample?: Float64Array;
  readonly group?: Float64Array;
  /** What came, for messages. */
  readonly came: string;
}

/** What inputs are read for. */
export interface Reading {
  readonly layout: Layout;
  readonly precision: Precision;
  /** Where known: inputs that it declares are read as it declares them. */
  readonly loss: Loss | undefined;
}

const AXES: readonly InputAxis[] = ["token", "sample", "group"];

export function checkLoss(loss: unknown): asserts loss is Loss {
  if (loss instanceof Loss) return;
  throw new InputError("loss", `expected what defineLoss gives, got ${describe(loss)}`);
}

/** What an input of an axis may look like. */
function expected(layout: Layout, axis: InputAxis): string {
  const flat = `${sizeOf(layout, axis)} numbers`;
  if (axis !== "token") return `${flat} (one per ${axis})`;
  return `${layout.rowLengths.length} rows of full length or ${flat} (one per trained token)`;
}

/** Reads one input for the axes that it may vary over. A flat list is kept for each that its length allows. */
async function readInput(
  path: string,
  value: unknown,
  axes: readonly InputAxis[],
  { layout, precision }: Reading,
  pace: Pace,
): Promise<StoredInput> {
  if (isRowList(value) && axes.includes("token")) {
    return { token: await packRows(path, value, layout, precision, pace), came: `${value.length} rows` };
  }
  const rows = isRowList(value);
  const fitting = axes.filter(
    (axis) => isNumberList(value) && !rows && value.length === sizeOf(layout, axis),
  );
  if (fitting.length === 0) {
    const came = rows ? `${value.length} rows` : describe(value);
    throw new InputError(
      path,
      `expected ${axes.map((axis) => expected(layout, axis)).join(" or ")}, got ${came}`,
    );
  }
  const stored: Partial<Record<InputAxis, Floats>> = {};
  for (const axis of fitting) {
    const kept = axis === "token" ? precision : "float64";
    stored[axis] = await copyFlat(path, value as ArrayLike<number>, kept, pace);
  }
  return { ...(stored as Omit<StoredInput, "came">), came: describe(value) };
}

/** Reads what a caller gave of `logprobs` and `inputs`, by name. */
export async function readInputs(
  given: { readonly logprobs?: unknown; readonly inputs?: unknown },
  reading: Reading,
  pace: Pace,
): Promise<Map<string, StoredInput>> {
  const { logprobs, inputs = {} } = given;
  const stored = new Map<string, StoredInput>();
  if (logprobs !== undefined)
    stored.set("logprobs", await readInput("logprobs", logprobs, ["token"], reading, pace));
  if (!isRecord(inputs)) {
    throw new InputError("inputs", `expected an object of inputs by name, got ${describe(inputs)}`);
  }
  for (const [name, value] of Object.entries(inputs)) {
    if (name === "logprobs" || name === "weights") {
      throw new InputError(`inputs.${name}`, `expected it as an option of its own, not among the inputs`);
    }
    const declared = reading.loss?.inputs[name]?.axis as InputAxis | undefined;
    const axes = declared === undefined ? AXES : [declared];
    stored.set(name, await readInput(`inputs.${name}`, value, axes, reading, pace));
  }
  return stored;
}

/** What a batch holds of an input that a loss declares. */
export function inputOf(
  loss: Loss,
  { layout, inputs }: { readonly layout: Layout; readonly inputs: ReadonlyMap<string, StoredInput> },
  name: string,
  axis: InputAxis,
): Floats {
  const input = inputs.get(name);
  const values = input?.[axis];
  if (values !== undefined) return values;
  const path = name === "logprobs" || name === "weights" ? name : `inputs.${name}`;
  const others = [...inputs.keys()].filter((key) => !(key === "weights" || Object.hasOwn(loss.inputs, key)));
  // A batch may serve several losses, so that a name which this one does not know is no fault by itself.
  const meant = input === undefined ? nearestName(name, others) : undefined;
  const hint = meant === undefined ? "" : `; did you mean ${meant}, which the batch has?`;
  throw new InputError(path, `expected ${expected(layout, axis)}, got ${input?.came ?? "nothing"}${hint}`);
}
