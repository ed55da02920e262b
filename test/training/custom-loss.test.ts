// A custom step against a scripted server: what is sent, what comes back, and what is refused before anything is sent.
import { afterAll, beforeAll, expect, test } from "vitest";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { defineLoss, perSample, perToken } from "../../src/loss/define.ts";
import { computeCustomForwardBackward, computeLogprobs } from "../../src/training/custom-loss.ts";
import { completed, rejection, scriptedSession } from "../client/server.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await createEngine({ device: "cpu" });
});
afterAll(() => engine.dispose());

const SAMPLES = [
  { tokens: [5, 6, 7], targets: [6, 7, 8], weights: [0, 1, 1] },
  { tokens: [1, 2], targets: [2, 3], weights: [0, 1] },
];
const scored = (...rows: number[][]) =>
  completed({
    loss: 1,
    loss_fn_outputs: rows.map((data) => ({ tensors: { logprobs: { data, dtype: "float32" } } })),
  });
const SCORES = scored([0, -1, -2], [0, -4]);

const nll = defineLoss({
  params: { scale: 1 },
  loss: ({ logprobs, scale }) => {
    const perSampleNll = logprobs.neg().mean("sample");
    return { loss: perSampleNll.mean().mul(scale), metrics: { largest: perSampleNll.max() } };
  },
});
const drift = defineLoss({
  inputs: { reference: perToken() },
  loss: ({ logprobs, reference }) => logprobs.sub(reference).square().mean("sample").mean(),
});
const weighted = defineLoss({
  inputs: { advantages: perSample() },
  loss: ({ logprobs, advantages }) => logprobs.mul(advantages).neg().mean(),
});
const pairs = defineLoss({
  loss: ({ logprobs }) => {
    const sums = logprobs.sum("sample");
    return sums.member(0).sub(sums.member(1)).logSigmoid().neg().mean();
  },
});

const gradientsSent = (body: string) =>
  (JSON.parse(body) as { gradients: { data: number[]; dtype: string }[] }).gradients;

test("scores, computes, posts: d loss / d logprob as it is, zeros where nothing is trained", async () => {
  const { session, requests } = await scriptedSession([SCORES, completed({})]);
  const result = await computeCustomForwardBackward(session, SAMPLES, nll, { engine });
  expect(result.loss).toBe((1.5 + 4) / 2);
  expect(result.metrics).toEqual({ largest: 4 });
  expect(result.operation).toMatchObject({ id: "op-1", kind: "custom-forward-backward" });
  expect([...result.gradients.row(0)]).toEqual([0, -0.25, -0.25]);
  expect([...result.gradients.row(1)]).toEqual([0, -0.5]);

  const [forward, custom] = requests;
  expect(forward!.path).toBe("/v1/rl/training-sessions/s-1/operations/forward-backward");
  expect(JSON.parse(forward!.body)).toMatchObject({ forward_only: true, return_loss_fn_outputs: true });
  expect(custom!.path).toBe("/v1/rl/training-sessions/s-1/operations/custom-forward-backward");
  expect(gradientsSent(custom!.body)).toEqual([
    { data: [0, -0.25, -0.25], dtype: "D_TYPE_FLOAT32" },
    { data: [0, -0.5], dtype: "D_TYPE_FLOAT32" },
  ]);
  expect(JSON.parse(custom!.body).samples).toEqual(JSON.parse(forward!.body).samples);
});

test("bfloat16 gradients are sent as the shortest decimals of their values", async () => {
  const { session, requests } = await scriptedSession([SCORES, completed({})]);
  const options = { engine, dtype: "bfloat16", params: { scale: 0.3 } } as const;
  const { gradients } = await computeCustomForwardBackward(session, SAMPLES, nll, options);
  expect(gradients.dtype).toBe("bfloat16");
  const [row] = gradientsSent(requests[1]!.body);
  expect(row).toMatchObject({ dtype: "D_TYPE_BFLOAT16" });
  expect(row!.data[1]).toBeCloseTo(-0.075, 3);
  expect(requests[1]!.body).toMatch(/\[0,-0\.07\d{1,3},/);
});

test("computeLogprobs gives full rows", async () => {
  const { session } = await scriptedSession([SCORES]);
  expect(await computeLogprobs(session, SAMPLES)).toEqual([
    Float32Array.of(0, -1, -2),
    Float32Array.of(0, -4),
  ]);
});

const finite = [
  [1, 2, 3],
  [4, 5],
];
test.each<[string, () => Promise<unknown>, object]>([
  ["an input is missing", () => step(drift, {}), { code: "ERR_INPUT", path: "inputs.reference" }],
  [
    "rows are missing",
    () => step(drift, { inputs: { reference: finite.slice(1) } }),
    { path: "inputs.reference" },
  ],
  [
    "a row is short",
    () =>
      step(drift, {
        inputs: {
          reference: [
            [1, 2],
            [4, 5],
          ],
        },
      }),
    { path: "inputs.reference", sample: 0 },
  ],
  [
    "a value is NaN",
    () =>
      step(drift, {
        inputs: {
          reference: [
            [1, 2, 3],
            [4, Number.NaN],
          ],
        },
      }),
    { sample: 1, position: 1 },
  ],
  [
    "a value is infinite",
    () =>
      step(drift, {
        inputs: {
          reference: [
            [1, -Infinity, 3],
            [4, 5],
          ],
        },
      }),
    { sample: 0, position: 1 },
  ],
  [
    "there are too few advantages",
    () => step(weighted, { inputs: { advantages: [1, 2, 3, 4] } }),
    { path: "inputs.advantages" },
  ],
  [
    "an advantage is NaN",
    () => step(weighted, { inputs: { advantages: [1, Number.NaN] } }),
    { path: "inputs.advantages[1]" },
  ],
  ["a parameter is unknown", () => step(nll, { params: { scall: 2 } as never }), { code: "ERR_INPUT" }],
  ["a parameter is NaN", () => step(nll, { params: { scale: Number.NaN } }), { path: "params.scale" }],
  ["samples do not pair", () => step(pairs, { groups: 3 }), { path: "groups" }],
  ["groups are too small", () => step(pairs, {}), { path: "groups" }],
  [
    "nothing is trained",
    () =>
      step(
        nll,
        {},
        SAMPLES.map((sample) => ({ ...sample, weights: [0, 0, 0].slice(0, sample.tokens.length) })),
      ),
    { code: "ERR_EMPTY_BATCH" },
  ],
  [
    "a weight is negative",
    () => step(nll, {}, [{ ...SAMPLES[0]!, weights: [0, -1, 1] }]),
    { path: "samples[0].weights", sample: 0, position: 1 },
  ],
  [
    "a token is negative",
    () => step(nll, {}, [{ ...SAMPLES[0]!, targets: [6, -7, 8] }]),
    { sample: 0, position: 1 },
  ],
  [
    "a token is fractional",
    () => step(nll, {}, [{ ...SAMPLES[0]!, tokens: [5, 6, 7.5] }]),
    { sample: 0, position: 2 },
  ],
  [
    "a token is beyond 2^53",
    () => step(nll, {}, [{ ...SAMPLES[0]!, tokens: [2 ** 53, 6, 7] }]),
    { sample: 0, position: 0 },
  ],
  [
    "rows differ in length",
    () => step(nll, {}, [{ ...SAMPLES[0]!, targets: [6, 7] }]),
    { code: "ERR_INPUT", sample: 0 },
  ],
  ["there are no samples", () => step(nll, {}, []), { code: "ERR_INPUT" }],
  ["there is no engine", () => step(nll, { engine: undefined }), { path: "engine" }],
  ["the engine was not awaited", () => step(nll, { engine: Promise.resolve(engine) }), { path: "engine" }],
  [
    "an option is misspelt",
    () => step(nll, { param: { scale: 2 } }),
    { path: "options.param", message: expect.stringContaining("did you mean params?") },
  ],
  ["the dtype is unknown", () => step(nll, { dtype: "float64" }), { path: "dtype" }],
  [
    "the engine is disposed",
    async () => {
      const gone = await createEngine({ device: "cpu" });
      gone.dispose();
      return step(nll, { engine: gone });
    },
    { code: "ERR_DISPOSED" },
  ],
  ["the loss is no loss", () => step((() => 0) as never, {}), { path: "loss" }],
])("nothing is sent when %s", async (_, run, expected) => {
  expect(await rejection(run())).toMatchObject(expected);
  expect(received).toEqual([]);
});

let received: unknown[] = [];
/** A step on a server that would answer it. */
async function step(
  loss: never | typeof nll | typeof drift | typeof weighted | typeof pairs,
  options: object,
  samples = SAMPLES,
) {
  const { session, requests } = await scriptedSession([SCORES, completed({})]);
  received = requests;
  return computeCustomForwardBackward(session, samples, loss as typeof nll, { engine, ...options });
}

test("a step that is called behind it goes out behind it, and not at all where it fails", async () => {
  const { session, requests } = await scriptedSession([SCORES, completed({}), completed({ step: 1 })]);
  const pass = computeCustomForwardBackward(session, SAMPLES, nll, { engine });
  expect((await session.optimStep()).step).toBe(1);
  await pass;
  expect(requests.map(({ path }) => path.split("/").pop())).toEqual([
    "forward-backward",
    "custom-forward-backward",
    "optim-step",
  ]);
  const failing = rejection(
    computeCustomForwardBackward(session, [{ ...SAMPLES[0]!, weights: [0, 0, 0] }], nll, { engine }),
  );
  const step = rejection(session.optimStep());
  expect((await failing).code).toBe("ERR_EMPTY_BATCH");
  expect((await step).code).toBe("ERR_NOT_SENT");
  const misspelt = rejection(
    computeCustomForwardBackward(session, SAMPLES, nll, { engine, group: 2 } as never),
  );
  const behind = rejection(session.optimStep());
  expect((await misspelt).code).toBe("ERR_INPUT");
  expect((await behind).code).toBe("ERR_NOT_SENT");
  expect(requests.length).toBe(3);
});

test("rows of the gradients are of the dtype that was asked for", async () => {
  const { session } = await scriptedSession([SCORES, completed({}), SCORES, completed({})]);
  const bits = await computeCustomForwardBackward(session, SAMPLES, nll, { engine, dtype: "bfloat16" });
  const row: Uint16Array = bits.gradients.row(0);
  expect(row).toBeInstanceOf(Uint16Array);
  const numbers = await computeCustomForwardBackward(session, SAMPLES, nll, { engine });
  const first: Float32Array = numbers.gradients.row(0);
  expect(first).toBeInstanceOf(Float32Array);
  expect(numbers.operations).toEqual([numbers.operation]);
});

test("large ids as BigInt and decimal strings are fine and keep their digits", async () => {
  const { session, requests } = await scriptedSession([scored([-1, -1]), completed({})]);
  const samples = [{ tokens: [2n ** 60n, 1], targets: ["9007199254740993", 2], weights: [1, 1] }];
  await computeCustomForwardBackward(session, samples, nll, { engine });
  for (const { body } of requests) {
    expect(body).toContain("1152921504606846976");
    expect(body).toContain("9007199254740993");
  }
});

test("a log-probability that is null or missing where the position is trained sends no gradient", async () => {
  for (const rows of [
    [
      [0, null, -2],
      [0, -4],
    ],
    [
      [0, -1],
      [0, -4],
    ],
    [[0, -1, -2]],
  ]) {
    const { session, requests } = await scriptedSession([scored(...(rows as number[][])), completed({})]);
    expect(await rejection(computeCustomForwardBackward(session, SAMPLES, nll, { engine }))).toMatchObject({
      code: "ERR_RESPONSE",
    });
    expect(requests).toHaveLength(1);
  }
});

test("a non-finite gradient is not sent; the error names sample, position, op and line", async () => {
  const overflow = defineLoss({ loss: ({ logprobs }) => logprobs.neg().mul(100).exp().mean() });
  const { session, requests } = await scriptedSession([scored([0, -0.1, -2], [0, -0.5]), completed({})]);
  const error = await rejection(computeCustomForwardBackward(session, SAMPLES, overflow, { engine }));
  expect(error).toMatchObject({ code: "ERR_NON_FINITE", sample: 0, position: 2, op: "exp", operands: [200] });
  expect(error.source).toContain("custom-loss.test.ts");
  expect(requests).toHaveLength(1);
});

test("an aborted step sends nothing more", async () => {
  const controller = new AbortController();
  const { session, requests } = await scriptedSession([SCORES, completed({})]);
  controller.abort();
  const error = await rejection(
    computeCustomForwardBackward(session, SAMPLES, nll, { engine, signal: controller.signal }),
  );
  expect(error.name).toBe("AbortError");
  expect(requests).toEqual([]);
});
