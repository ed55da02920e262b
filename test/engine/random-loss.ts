// Random losses over all axes, for property tests.
import fc from "fast-check";
import { defineLoss, type Loss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { OPS, type OpName, SIGNATURES } from "../../src/loss/ops.ts";
import type { Mask, Symbolic, Tensor } from "../../src/loss/tensor.ts";

/** One step of a random loss: an op on values that are there already, chosen by number. */
interface Step {
  readonly op: OpName;
  readonly operands: readonly [number, number, number];
  readonly choice: number;
}

const COARSER = {
  token: ["sample", "group", "batch"],
  sample: ["group", "batch"],
  group: ["batch"],
  batch: [],
};
const EXPONENTS = [-2, -1, 0, 0.5, 1, 2, 3];

/** Calls an op on some of the values, or gives nothing where it does not fit. */
function take(values: readonly Symbolic[], { op, operands, choice }: Step): Symbolic | undefined {
  const signature = SIGNATURES[OPS[op].signature];
  const of = (kind: string) => values.filter((value) => kind === "any" || value.kind === kind);
  const chosen = signature.operands.map((kind, place) => {
    const fitting = of(kind);
    return fitting[operands[place]! % Math.max(1, fitting.length)];
  });
  if (chosen.some((value) => value === undefined)) return undefined;
  const [x, ...others] = chosen as Symbolic[];
  // biome-ignore lint/suspicious/noExplicitAny: the method is chosen by name
  const call = (...args: unknown[]): Symbolic => (x as any)[op](...args);
  const coarser = COARSER[x!.axis];
  const to = coarser[choice % Math.max(1, coarser.length)];
  switch (OPS[op].signature) {
    case "power":
      return call(EXPONENTS[choice % EXPONENTS.length]);
    case "reduction":
    case "count":
    case "normalization":
      return to === undefined ? undefined : call(to);
    case "statistic":
      return to === undefined ? undefined : call(to, { correction: choice % 2 });
    case "order":
      return x!.axis === "sample" || x!.axis === "group" ? call(to) : undefined;
    case "top":
      return to === undefined ? undefined : call(1 + (choice % 3), to);
    case "scan":
      return x!.axis === "token"
        ? call({
            reverse: choice % 2 === 1,
            exclusive: choice % 3 === 1,
            discount: choice % 5 === 0 ? 0.5 : 1,
          })
        : undefined;
    case "shift":
      return x!.axis === "token" ? call((choice % 5) - 2) : undefined;
    case "member":
      return x!.axis === "sample" ? call(0) : undefined;
    case "gather":
      return undefined;
    default:
      return call(...others);
  }
}

/** A loss that sums up everything that its steps made. */
function build(steps: readonly Step[]): Loss {
  return defineLoss({
    name: "random",
    inputs: { reference: perToken(), advantages: perSample(), margin: perGroup() },
    params: { beta: 0.3 },
    loss: ({ logprobs, weights, reference, advantages, margin, beta }) => {
      const values: Symbolic[] = [logprobs, logprobs, logprobs, weights, reference, advantages, margin, beta];
      let loss: Tensor<"batch"> = logprobs.mul(weights).sum();
      for (const step of steps) {
        const value = take(values, step);
        if (value === undefined) continue;
        values.push(value);
        const numbers = (
          value.kind === "mask" ? (value as Mask<"token">).indicator() : value
        ) as Tensor<"token">;
        loss = loss.add(value.axis === "batch" ? (numbers as unknown as Tensor<"batch">) : numbers.sum());
      }
      return loss;
    },
  }) as unknown as Loss;
}

/** Losses of up to a dozen steps with some of the ops. */
export const randomLoss = (ops: readonly OpName[]): fc.Arbitrary<Loss> =>
  fc
    .array(
      fc.record({
        op: fc.constantFrom(...ops),
        operands: fc.tuple(fc.nat(100), fc.nat(100), fc.nat(100)),
        choice: fc.nat(100),
      }),
      { minLength: 1, maxLength: 12 },
    )
    .map(build);

/** Numbers as log-probabilities are, with ties, zeros and large ones among them. */
export const numbers = (count: number): fc.Arbitrary<number[]> =>
  fc.array(
    fc.oneof(
      { weight: 5, arbitrary: fc.double({ min: -4, max: 2, noNaN: true }).map(Math.fround) },
      { weight: 2, arbitrary: fc.constantFrom(0, -1, -0.5, 1, -2) },
      { weight: 1, arbitrary: fc.constantFrom(-100, -60, 90, 100, -1e-30) },
    ),
    { minLength: count, maxLength: count },
  );
