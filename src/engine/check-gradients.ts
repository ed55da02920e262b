// Compares a loss's gradients with central differences, in float64.
import { describe, InputError } from "../errors.ts";
import { compileCheck, freeze } from "../loss/compile.ts";
import type { Loss } from "../loss/define.ts";
import type { Axis } from "../loss/graph.ts";
import { runsOf } from "../rows/layout.ts";
import type { BatchContents } from "./batch.ts";
import { sizeOf } from "./layout.ts";
import type { Floats } from "./pack.ts";
import { placeOf } from "./place.ts";
import type { Executed, Task } from "./runner.ts";

export interface CheckOptions {
  /** Step of the differences, relative to the size of each number, at least to 1. Default 1e-5. */
  readonly step?: number;
  /** Largest difference, relative to the largest gradient of the input, that counts as equal. Default 1e-6. */
  readonly tolerance?: number;
  /** Most elements of one input to try; evenly spaced ones where it has more. Default 256. */
  readonly elements?: number;
}

/** Where a gradient was compared. */
export interface CheckedElement {
  /** Index of the sample of a token or sample, or of the group. */
  readonly sample?: number;
  readonly position?: number;
  readonly group?: number;
  /** The program's gradient. */
  readonly gradient: number;
  /** The slope by central differences. */
  readonly slope: number;
  /** `|gradient - slope|`, less what the rounding of the loss makes of a slope. */
  readonly error: number;
  /** The gradient or the loss jumps here, as at a bound, a tie or a label: the slope need not agree. */
  readonly kink: boolean;
}

export interface CheckedInput {
  readonly name: string;
  readonly axis: Axis;
  /** Elements that were tried. */
  readonly checked: number;
  /** How many of them are kinks. */
  readonly kinks: number;
  /** Largest error away from kinks, relative to the largest gradient or slope of the input. */
  readonly relativeError: number;
  readonly passed: boolean;
  /** The elements with the largest errors, worst first, at most five; kinks among them are marked. */
  readonly worst: readonly CheckedElement[];
}

/** Of each input of a loss that a gradient was computed for, `logprobs` first. */
export interface GradientCheck {
  readonly passed: boolean;
  readonly inputs: readonly CheckedInput[];
}

const WORST = 5;

/** Runs the checking program over other inputs. */
type Run = (inputs: readonly Floats[]) => Promise<Executed>;

/** Evenly spaced elements of a list. */
const spaced = (size: number, most: number): number[] =>
  size <= most
    ? Array.from({ length: size }, (_, i) => i)
    : Array.from({ length: most }, (_, i) => Math.floor((i * (size - 1)) / Math.max(1, most - 1)));

/** The gradient of the log-probabilities, which a run gives in full rows, at the trained tokens. */
function packedGradients(contents: BatchContents, buffer: ArrayBuffer): Float64Array {
  const { rowOffsets, tokens } = contents.layout;
  const rows = new Float64Array(buffer);
  const packed = new Float64Array(tokens);
  for (const { sample, start, size, token } of runsOf(contents.layout)) {
    const first = rowOffsets[sample]! + start;
    packed.set(rows.subarray(first, first + size), token);
  }
  return packed;
}

/** The gradient that a run of a checking program gave for one of its inputs. */
type GradientOf = (executed: Executed) => Float64Array;

/** The loss's slope across a step to both sides of an element, and the element's gradient there. */
async function across(
  run: Run,
  inputs: readonly Floats[],
  gradientOf: GradientOf,
  {
    place,
    element,
    step,
    loss,
  }: {
    readonly place: number;
    readonly element: number;
    readonly step: number;
    readonly loss: number;
  },
): Promise<{ slope: number; left: number; right: number; noise: number; gradients: [number, number] }> {
  const values = inputs[place]!;
  const here = values[element]!;
  const h = step * Math.max(1, Math.abs(here));
  const at = async (value: number) => {
    const moved = Float64Array.from(values);
    moved[element] = value;
    const executed = await run(inputs.map((given, i) => (i === place ? moved : given)));
    return { loss: executed.loss, gradient: gradientOf(executed)[element]! };
  };
  const [above, below] = [await at(here + h), await at(here - h)];
  // Divided by the steps that were really made, rounding included.
  const [up, down] = [here + h - here, here - (here - h)];
  return {
    slope: (above.loss - below.loss) / (up + down),
    left: (loss - below.loss) / down,
    right: (above.loss - loss) / up,
    // What the rounding of the loss alone makes of a slope.
    noise: (8 * Number.EPSILON * Math.max(Math.abs(loss), Math.abs(above.loss), Math.abs(below.loss))) / h,
    gradients: [below.gradient, above.gradient],
  };
}

/**
 * Compares the gradients of every input with central differences. Detached values are held fixed, as the program does;
 * ties and bounds show as kinks, not as errors.
 */
export async function checkInputs(
  loss: Loss,
  contents: BatchContents,
  inputs: readonly Floats[],
  options: CheckOptions,
  execute: (task: Pick<Task, "program" | "contents" | "inputs">) => Promise<Executed>,
): Promise<GradientCheck> {
  const { step = 1e-5, tolerance = 1e-6, elements = 256 } = options;
  for (const [name, value] of Object.entries({ step, tolerance, elements })) {
    if (!(typeof value === "number" && Number.isFinite(value) && value > 0)) {
      throw new InputError(`options.${name}`, `expected a number above 0, got ${describe(value)}`);
    }
  }
  if (!Number.isInteger(elements)) {
    throw new InputError("options.elements", `expected a whole number, got ${elements}`);
  }
  const inputNames = loss.graph.inputs.map(({ name }) => name);
  const others = inputNames.filter((name) => name !== "logprobs");
  const gradientsOf = (name: string): GradientOf =>
    name === "logprobs"
      ? ({ gradients }) => packedGradients(contents, gradients)
      : ({ outputs }) => outputs[others.indexOf(name)]!;

  const exact = await execute({ program: compileCheck(loss.graph), contents, inputs });
  const program = compileCheck(freeze(loss.graph));
  const held = [...inputs, ...exact.outputs.slice(others.length)];
  const run: Run = (given) => execute({ program, contents, inputs: given });

  const results: CheckedInput[] = [];
  for (const [place, { name, axis }] of loss.graph.inputs.entries()) {
    const gradientOf = gradientsOf(name);
    const gradient = gradientOf(exact);
    const largest = gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const found: CheckedElement[] = [];
    for (const element of spaced(sizeOf(contents.layout, axis), elements)) {
      const { slope, left, right, noise, gradients } = await across(run, held, gradientOf, {
        place,
        element,
        step,
        loss: exact.loss,
      });
      const own = gradient[element]!;
      // Over so small a step a smooth gradient hardly changes, even where it is near 0, and both sides have one slope.
      const local = Math.max(Math.abs(own), ...gradients.map(Math.abs));
      const scale = Math.max(largest, local);
      const jump = Math.max(...gradients.map((near) => Math.abs(near - own)));
      const gap = Math.abs(right - left);
      const kink =
        (jump > 1e-2 * local && jump > 1e-3 * scale) ||
        (gap > 1e-2 * Math.max(Math.abs(left), Math.abs(right)) && gap > 1e-3 * scale + 100 * noise);
      const where = placeOf(contents.layout, axis, element);
      found.push({ ...where, gradient: own, slope, error: Math.max(0, Math.abs(own - slope) - noise), kink });
    }
    results.push(summarise(name, axis, found, tolerance));
  }
  return { passed: results.every(({ passed }) => passed), inputs: results };
}

function summarise(
  name: string,
  axis: Axis,
  found: readonly CheckedElement[],
  tolerance: number,
): CheckedInput {
  const smooth = found.filter(({ kink }) => !kink);
  let largest = 0;
  let error = 0;
  for (const element of smooth) {
    largest = Math.max(largest, Math.abs(element.gradient), Math.abs(element.slope));
    error = Math.max(error, element.error);
  }
  const relativeError = error === 0 ? 0 : error / Math.max(largest, 1e-12);
  return {
    name,
    axis,
    checked: found.length,
    kinks: found.length - smooth.length,
    relativeError,
    passed: !(relativeError > tolerance) && found.every(({ error }) => Number.isFinite(error)),
    worst: [...found].sort((a, b) => b.error - a.error).slice(0, WORST),
  };
}
