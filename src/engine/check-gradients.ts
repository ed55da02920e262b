// Compares a loss's gradients with central differences, in float64.
import { InputError } from "../errors.ts";
import { compile, compileCheck, freeze } from "../loss/compile.ts";
import type { Loss } from "../loss/define.ts";
import type { Axis, Program } from "../loss/graph.ts";
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
  /** `|gradient - slope|`. */
  readonly error: number;
  /** The slopes on both sides differ and the gradient lies between them: no derivative exists there. */
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

/** Runs a program over given inputs on the `torch` executor. */
type Run = (program: Program, inputs: readonly Floats[]) => Promise<Executed>;

/** Evenly spaced elements of a list. */
const spaced = (size: number, most: number): number[] =>
  size <= most
    ? Array.from({ length: size }, (_, i) => i)
    : Array.from({ length: most }, (_, i) => Math.floor((i * (size - 1)) / Math.max(1, most - 1)));

/** The gradient of the log-probabilities, which a run gives in full rows, at the trained tokens. */
function packedGradients(contents: BatchContents, buffer: ArrayBuffer): Float64Array {
  const { rowOffsets, runCounts, runs, tokens } = contents.layout;
  const rows = new Float64Array(buffer);
  const packed = new Float64Array(tokens);
  let run = 0;
  let token = 0;
  runCounts.forEach((count, sample) => {
    for (const end = run + count; run < end; run++) {
      const [start, size] = [rowOffsets[sample]! + runs[2 * run]!, runs[2 * run + 1]!];
      packed.set(rows.subarray(start, start + size), token);
      token += size;
    }
  });
  return packed;
}

/** The slopes of the loss before and behind a point, and across it. */
async function slopesAt(
  run: Run,
  program: Program,
  inputs: readonly Floats[],
  place: number,
  element: number,
  { step, loss }: { readonly step: number; readonly loss: number },
): Promise<{ left: number; right: number; across: number }> {
  const values = inputs[place]!;
  const here = values[element]!;
  const h = step * Math.max(1, Math.abs(here));
  const lossAt = async (value: number) => {
    const moved = Float64Array.from(values);
    moved[element] = value;
    return (await run(program, inputs.with(place, moved))).loss;
  };
  const [above, below] = [await lossAt(here + h), await lossAt(here - h)];
  // The steps that were really made, rounding included.
  const [up, down] = [here + h - here, here - (here - h)];
  return {
    left: (loss - below) / down,
    right: (above - loss) / up,
    across: (above - below) / (up + down),
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
      throw new InputError(`options.${name}`, `expected a number above 0, got ${value}`);
    }
  }
  const run: Run = (program, given) => execute({ program, contents, inputs: given });
  const checked = compileCheck(loss.graph);
  const exact = await run(checked, inputs);
  const others = loss.graph.inputs.filter(({ name }) => name !== "logprobs");
  const gradients = new Map(others.map(({ name }, i) => [name, exact.outputs[i]!]));
  gradients.set("logprobs", packedGradients(contents, exact.gradients));
  const frozen = compile(freeze(loss.graph));
  const held = [...inputs, ...exact.outputs.slice(others.length)];

  const results: CheckedInput[] = [];
  for (const [place, { name, axis }] of loss.graph.inputs.entries()) {
    const gradient = gradients.get(name)!;
    const found: CheckedElement[] = [];
    for (const element of spaced(sizeOf(contents.layout, axis), Math.ceil(elements))) {
      const slopes = await slopesAt(run, frozen, held, place, element, { step, loss: exact.loss });
      const { left, right, across } = slopes;
      const own = gradient[element]!;
      const error = Math.abs(own - across);
      // Away from kinks the slopes of both sides differ by the curvature times the step.
      const gap = Math.abs(right - left);
      const between = own >= Math.min(left, right) - gap * 0.01 && own <= Math.max(left, right) + gap * 0.01;
      const scale = Math.max(Math.abs(left), Math.abs(right), Math.abs(own));
      const kink = gap > Math.max(1e-2 * scale, tolerance) && between;
      found.push({ ...placeOf(contents.layout, axis, element), gradient: own, slope: across, error, kink });
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
  const largest = Math.max(
    0,
    ...smooth.map(({ gradient, slope }) => Math.max(Math.abs(gradient), Math.abs(slope))),
  );
  const error = Math.max(0, ...smooth.map((element) => element.error));
  // Differences of the loss carry its rounding, divided by the step.
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
