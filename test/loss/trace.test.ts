// What tracing accepts, what it refuses, and how a traced loss prints.
import { expect, test } from "vitest";
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { LossError } from "../../src/loss/errors.ts";
import { OPS, type OpName } from "../../src/loss/ops.ts";

/** Runs code that type checkers would refuse. */
// biome-ignore lint/suspicious/noExplicitAny: these losses are wrong on purpose
const define = (loss: (args: any) => unknown, rest: object = {}) => defineLoss({ ...rest, loss } as never);

const errorOf = (run: () => unknown): LossError => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(LossError);
    return error as LossError;
  }
  throw new Error("nothing was thrown");
};

/** The line of this file on which the caller stands. */
const line = (offset = 0) => Number(new Error().stack!.split("\n")[2]!.match(/:(\d+):\d+\)?$/)![1]) + offset;

test("a traced loss prints as a readable program", () => {
  const loss = defineLoss({
    name: "regularized_sft",
    inputs: { reference: perToken() },
    params: { beta: 0.1 },
    loss: ({ logprobs, reference, beta }) => {
      const nll = logprobs.neg().mean("sample");
      const drift = logprobs.sub(reference).square().mean("sample");
      return { loss: nll.add(drift.mul(beta)).mean(), metrics: { nll: nll.mean() } };
    },
  });
  expect(String(loss)).toMatchInlineSnapshot(`
    "loss regularized_sft(logprobs: token, weights: token, reference: token, beta: batch)
      a: token = neg logprobs
      b: sample = mean a
      c: token = sub logprobs reference
      d: token = square c
      e: sample = mean d
      f: sample = mul e beta@sample
      g: sample = add b f
      h: batch = mean g
      i: batch = mean b
      return h, nll: i"
  `);
});

test("masks, pairs, bounds and static numbers print too", () => {
  const loss = defineLoss({
    inputs: { margin: perGroup() },
    loss: ({ logprobs, margin }) => {
      const sums = logprobs.gt(-1).where(logprobs, -1).clamp(-5).sum("sample");
      const gap = sums.member(0).sub(sums.member(1)).sub(margin);
      return gap.pow(2).sigmoid().mean();
    },
  });
  expect(String(loss)).toMatchInlineSnapshot(`
    "loss loss(logprobs: token, weights: token, margin: group)
      a: token mask = gt logprobs -1
      b: token = where a logprobs -1
      c: token = clamp b -5 Infinity
      d: sample = sum c
      e: group = member d 0
      f: group = member d 1
      g: group = sub e f
      h: group = sub g margin
      i: group = pow h 2
      j: group = sigmoid i
      k: batch = mean j
      return k"
  `);
});

test("values never take the names of inputs", () => {
  const loss = defineLoss({
    inputs: { a: perSample() },
    loss: ({ logprobs, a }) => logprobs.exp().mul(a).mean(),
  });
  expect(String(loss)).toContain("  b: token = exp logprobs\n  c: token = mul b a@token");
});

test("equal expressions are traced once and unused ones are dropped", () => {
  const { graph } = defineLoss({
    loss: ({ logprobs }) => {
      logprobs.tanh();
      return logprobs.exp().add(logprobs.exp()).mul(2).add(logprobs.mul(2)).mean();
    },
  });
  expect(graph.nodes.map((node) => node.op).sort()).toEqual(
    ["add", "add", "constant", "exp", "input", "input", "mean", "mul", "mul", "spread"].sort(),
  );
});

test("0 and -0 are different constants", () => {
  const { graph } = defineLoss({ loss: ({ logprobs }) => logprobs.add(0).add(-0).mean() });
  expect(graph.nodes.filter((node) => node.op === "constant")).toHaveLength(2);
});

test("each node remembers the line that made it", () => {
  const { graph } = defineLoss({
    loss: ({ logprobs }) => {
      return logprobs.exp().mean();
    },
  });
  const exp = graph.nodes.find((node) => node.op === "exp")!;
  expect(exp.source).toMatch(new RegExp(`trace\\.test\\.ts:${line(-4)}:\\d+$`));
});

test("branching on a value fails with the source line", () => {
  const error = errorOf(() =>
    define(({ logprobs }) => {
      const p = logprobs.exp();
      return p > 0.5 ? p.mean() : logprobs.mean();
    }),
  );
  expect(error.code).toBe("ERR_TRACE");
  expect(error.source).toMatch(new RegExp(`trace\\.test\\.ts:${line(-4)}:\\d+$`));
  expect(error.message).toMatch(
    /a token tensor \(exp at .*trace\.test\.ts:\d+:\d+\) has no value while the loss is traced/,
  );
  expect(error.message).toContain("mask.where(a, b)");
});

test.each<[string, (args: never) => unknown]>([
  ["item()", ({ logprobs }: { logprobs: { item(): unknown } }) => logprobs.item()],
  ["arithmetic", ({ logprobs }: { logprobs: number }) => logprobs * 2],
  ["a template", ({ logprobs }: { logprobs: string }) => `${logprobs}`],
])("reading by %s fails", (_, loss) => {
  const error = errorOf(() => define(loss as never));
  expect(error.code).toBe("ERR_TRACE");
  expect(error.message).toContain("the input logprobs");
});

test.each([
  ["a number", () => 1, "got 1"],
  ["undefined", () => undefined, "got undefined"],
  ["a promise", async () => 1, "got a Promise; a loss function must not be async"],
  ["an array", () => [1, 2, 3], "got an array of 3"],
  ["a token tensor", ({ logprobs }: { logprobs: object }) => logprobs, 'got a tensor of axis "token"'],
  ["an object without loss", () => ({ metrics: {} }), "got undefined"],
])("returning %s is refused", (_, loss, text) => {
  const error = errorOf(() => define(loss as never));
  expect(error.code).toBe("ERR_LOSS_RESULT");
  expect(error.message).toContain(text);
  expect(error.source).toContain("trace.test.ts");
});

test("a mask is no loss, a token tensor no metric", () => {
  expect(errorOf(() => define(({ logprobs }) => logprobs.mean().gt(0))).message).toContain(
    'a mask of axis "batch"',
  );
  const metric = errorOf(() =>
    define(({ logprobs }) => ({ loss: logprobs.mean(), metrics: { p: logprobs } })),
  );
  expect(metric.message).toContain("metrics.p");
});

test("a loss that no gradient reaches is refused", () => {
  for (const loss of [
    ({ weights }: { weights: { mean(): unknown } }) => weights.mean(),
    ({ logprobs }: { logprobs: { detach(): { mean(): unknown } } }) => logprobs.detach().mean(),
  ]) {
    const error = errorOf(() => define(loss));
    expect(error.code).toBe("ERR_LOSS_RESULT");
    expect(error.message).toContain("does not depend on logprobs");
  }
});

test("wrong axes fail at run time with the axis named", () => {
  const finer = errorOf(() => define(({ logprobs }) => logprobs.mean("sample").sum("token")));
  expect(finer.code).toBe("ERR_AXIS");
  expect(finer.message).toContain(
    'sum of a tensor of axis "sample": expected "group" or "batch", got "token"',
  );
  const member = errorOf(() => define(({ logprobs }) => logprobs.member(0).mean()));
  expect(member.message).toContain('member: expected a tensor of axis "sample", got "token"');
  expect(errorOf(() => define(({ logprobs }) => logprobs.mean().mean())).code).toBe("ERR_AXIS");
});

test("wrong operands name the op and the place", () => {
  const text = (loss: (args: never) => unknown) => errorOf(() => define(loss as never)).message;
  type Any = { logprobs: Record<string, (...args: unknown[]) => never> };
  expect(text(({ logprobs }: Any) => logprobs.add!("1"))).toContain(
    'add: operand 1: expected a tensor or a number, got "1"',
  );
  expect(text(({ logprobs }: Any) => logprobs.add!(Number.NaN))).toContain("add: operand 1 is NaN");
  expect(text(({ logprobs }: Any) => logprobs.mul!(logprobs.gt!(0)))).toContain('got a mask of axis "token"');
  expect(text(({ logprobs }: Any) => logprobs.and!(logprobs))).toContain(
    "and: expected a mask, got a tensor",
  );
  expect(text(({ logprobs }: Any) => logprobs.pow!(Number.POSITIVE_INFINITY))).toContain(
    "pow: expected a finite number",
  );
  const member = ({ logprobs }: { logprobs: { mean(axis: string): { member(k: number): unknown } } }) =>
    logprobs.mean("sample").member(1.5);
  expect(text(member as never)).toContain("member: expected an index of 0 or more, got 1.5");
});

test("a tensor cannot leave its loss", () => {
  let leaked: { exp(): unknown; mean(): never } | undefined;
  define(({ logprobs }) => {
    leaked = logprobs;
    return logprobs.mean();
  });
  expect(errorOf(() => leaked!.exp()).message).toContain("after its loss function had returned");
  expect(errorOf(() => define(({ logprobs }) => logprobs.add(leaked).mean())).message).toContain(
    "another loss",
  );
  expect(errorOf(() => define(() => leaked)).message).toContain('axis "batch"');
});

test("declarations are checked", () => {
  const mean = ({ logprobs }: { logprobs: { mean(): unknown } }) => logprobs.mean();
  const text = (rest: object) => errorOf(() => define(mean, rest)).message;
  expect(text({ inputs: { logprobs: perToken() } })).toContain('the name "logprobs" is taken');
  expect(text({ inputs: { x: perToken() }, params: { x: 1 } })).toContain('the name "x" is taken');
  expect(text({ inputs: { x: "token" } })).toContain(
    "inputs.x: expected perToken(), perSample() or perGroup()",
  );
  expect(text({ params: { beta: Number.NaN } })).toContain("params.beta: expected a finite number, got NaN");
});

test("every op of the table is a method", () => {
  defineLoss({
    loss: ({ logprobs }) => {
      const mask = logprobs.gt(0);
      for (const name of Object.keys(OPS) as OpName[]) {
        expect(name in logprobs && name in mask, name).toBe(true);
      }
      return logprobs.mean();
    },
  });
});
