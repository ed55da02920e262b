// Every elementwise op through the engine: values against the table's plain references, gradients against central
// differences, on every executor.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../../src/engine/batch.ts";
import { defineLoss, perToken } from "../../../src/loss/define.ts";
import { OPS, type OpName, SIGNATURES } from "../../../src/loss/ops.ts";
import type { Mask, Tensor } from "../../../src/loss/tensor.ts";
import { relativeError } from "../../helpers.ts";
import { slopes } from "../helpers.ts";
import {
  EXECUTIONS,
  opNames,
  packedGradients,
  spacedNumbers,
  TOKENS,
  TOLERANCES,
  useEngines,
  weights,
} from "./batch.ts";

const engines = useEngines();
const referenceOf = (name: OpName) => OPS[name].reference as (...values: number[]) => number;

/** Where the op and its slope exist. */
const domainOf = (name: OpName): [number, number] =>
  ["log", "sqrt", "pow", "div", "unscale"].includes(name)
    ? [0.2, 3]
    : name === "log1p"
      ? [-0.8, 3]
      : name === "log1mexp"
        ? [-3, -0.05]
        : [-3, 3];

type TokenOp = (x: Tensor<"token">, y: Tensor<"token">, z: Tensor<"token">) => Tensor<"token">;

/** How a loss calls each elementwise op. A mask is made visible by its indicator. */
function callOf(name: OpName, exponent: number): TokenOp {
  // biome-ignore lint/suspicious/noExplicitAny: the method is chosen by name
  const call = (x: object, ...args: unknown[]) => (x as any)[name](...args);
  switch (OPS[name].signature) {
    case "clamp":
      return (x, y, z) => call(x, y.minimum(z), y.maximum(z));
    case "power":
      return (x) => call(x, exponent);
    case "predicate":
      return (x) => call(x).indicator();
    case "comparison":
      return (x, y) => call(x, y).indicator();
    case "connective":
      return (x, y, z) => call(x.gt(y), x.gt(z)).indicator();
    case "negation":
      return (x, y) => (call(x.gt(y)) as Mask<"token">).indicator();
    case "select":
      return (x, y, z) => call(x.gt(y), x, z);
    case "indicator":
      return (x, y) => call(x.gt(y));
    default:
      return (x, y) => call(x, y);
  }
}

/** The same in plain numbers. */
function plainOf(name: OpName, exponent: number): (x: number, y: number, z: number) => number {
  const reference = referenceOf(name);
  switch (OPS[name].signature) {
    case "clamp":
      return (x, y, z) => reference(x, Math.min(y, z), Math.max(y, z));
    case "power":
      return (x) => reference(x, exponent);
    case "connective":
      return (x, y, z) => reference(+(x > y), +(x > z));
    case "negation":
    case "indicator":
      return (x, y) => reference(+(x > y));
    case "select":
      return (x, y, z) => reference(+(x > y), x, z);
    default:
      return (x, y) => reference(x, y);
  }
}

describe("elementwise ops", () => {
  const elementwise = opNames.filter((name) => SIGNATURES[OPS[name].signature].axis === "finest");
  const cases = elementwise.flatMap((name) =>
    (name === "pow" ? [2, 3, 1, 0, -1, 0.5, -2.5] : [Number.NaN]).flatMap((exponent) =>
      EXECUTIONS.map((execution) => ({ name, exponent, ...execution })),
    ),
  );

  it.each(cases)(
    "$name $exponent on $executor in $precision",
    async ({ name, exponent, executor, precision }) => {
      const [low, high] = domainOf(name);
      const [x, y, z] = [11, 12, 13].map((seed) => spacedNumbers(TOKENS, low, high, seed)) as [
        number[],
        number[],
        number[],
      ];
      const upstream = spacedNumbers(TOKENS, 0.5, 1.5, 14);
      const op = callOf(name, exponent);
      const plain = plainOf(name, exponent);
      const total = (x: readonly number[], y: readonly number[]) =>
        x.reduce((sum, value, i) => sum + plain(value, y[i]!, z[i]!) * upstream[i]!, 0);

      // Once as the first operand and once as the second.
      for (const place of [0, 1] as const) {
        const loss = defineLoss({
          inputs: { other: perToken(), third: perToken(), upstream: perToken() },
          // The variable itself takes part with a factor of 0, for ops that no gradient passes.
          loss: ({ logprobs, other, third, upstream }) => {
            const value = place === 0 ? op(logprobs, other, third) : op(other, logprobs, third);
            return value.mul(upstream).sum().add(logprobs.sum().mul(0));
          },
        });
        const variable = place === 0 ? x : y;
        const batch = await createBatch({
          weights,
          precision,
          logprobs: Float64Array.from(variable),
          inputs: { other: place === 0 ? y : x, third: z, upstream },
        });
        const result = await engines[executor].run(loss, batch, { dtype: precision });
        const got = packedGradients(result);
        const measured = slopes((values) => (place === 0 ? total(values, y) : total(x, values)), variable);
        const expected = name === "detach" ? measured.map(() => 0) : measured;
        expect(Math.abs(result.loss - total(x, y))).toBeLessThan(
          TOLERANCES[precision].value * Math.max(1, Math.abs(total(x, y))),
        );
        expect(relativeError(got, expected)).toBeLessThan(TOLERANCES[precision].slope);
      }
    },
  );
});
