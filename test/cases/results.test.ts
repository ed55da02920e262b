// What a loss function returns: no tensor of values, no value read on the way, metrics that may overflow.
import { describe, expect, it } from "vitest";
import { defineLoss } from "../../src/loss/define.ts";
import type { LossError } from "../../src/loss/errors.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { runner } from "./helpers.ts";

const engines = useEngines();

type Traced = Record<string, (...args: unknown[]) => Traced>;
const refusal = (loss: (args: { logprobs: Traced }) => unknown): LossError => {
  try {
    defineLoss({ loss } as never);
  } catch (error) {
    return error as LossError;
  }
  throw new Error("nothing was thrown");
};

it.each<[string, (args: { logprobs: Traced }) => unknown, string]>([
  ["three numbers", () => [1, 2, 3], "an array of 3"],
  ["a value per token", ({ logprobs }) => logprobs, 'a tensor of axis "token"'],
  ["a value per sample", ({ logprobs }) => logprobs.mean!("sample"), 'a tensor of axis "sample"'],
  ["truth values", ({ logprobs }) => logprobs.mean!().gt!(0), 'a mask of axis "batch"'],
  ["a number", () => 0.5, "0.5"],
  ["nothing", () => undefined, "undefined"],
  ["a promise", async ({ logprobs }) => logprobs.mean!(), "a Promise; a loss function must not be async"],
  ["an array of numbers of a kind", () => Int32Array.of(1), "an Int32Array of 1"],
])("a loss that returns %s is refused by name, not summed in silence", (_, loss, came) => {
  const error = refusal(loss);
  expect(error).toMatchObject({ name: "LossError", code: "ERR_LOSS_RESULT" });
  expect(error.message).toContain(`got ${came}`);
  expect(error.source).toContain("results.test.ts");
});

it("reading a value inside the loss fails with its line and names the way out: a metric", () => {
  const error = refusal(({ logprobs }) => ({
    loss: logprobs.mean!(),
    metrics: { nll: logprobs.mean!().item!() },
  }));
  expect(error).toMatchObject({ code: "ERR_TRACE" });
  expect(error.message).toContain("return what you want to read as a metric");
  expect(error.source).toContain("results.test.ts");
});

describe.each(EXECUTIONS)("on $executor in $precision", (execution) => {
  const run = runner(engines, execution);

  it("a part of the loss returned as a metric is computed once and keeps its gradient", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => {
        const nll = logprobs.neg().mean();
        return { loss: nll.mul(2), metrics: { nll } };
      },
    });
    expect(loss.graph.nodes.filter(({ op }) => op === "mean")).toHaveLength(1);
    expect(loss.program.nodes.filter(({ op }) => op === "sum")).toHaveLength(1);
    expect(await run(loss, { weights: [[1, 1]], logprobs: [[-1, -2]] })).toMatchObject({
      loss: 3,
      metrics: { nll: 1.5 },
      gradients: [[-1, -1]],
    });
  });

  it("a metric that overflows is infinite in memory and null in JSON; the loss goes on", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => {
        const nll = logprobs.neg().mean();
        return { loss: nll, metrics: { perplexity: nll.exp() } };
      },
    });
    const { metrics, loss: value, gradients } = await run(loss, { weights: [[1]], logprobs: [[-1000]] });
    expect(value).toBe(1000);
    expect(gradients).toEqual([[-1]]);
    expect(metrics).toEqual({ perplexity: Infinity });
    expect(JSON.stringify(metrics)).toBe('{"perplexity":null}');
  });
});
