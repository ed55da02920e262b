// Numbers on the wire: no null for what is not finite, arrays for typed arrays, the fewest digits, and what comes back.
import { expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perSample, perToken } from "../../src/loss/define.ts";
import { computeCustomForwardBackward, computeLogprobs } from "../../src/training/custom-loss.ts";
import { completed, rejection, scriptedSession } from "../client/server.ts";
import { useEngine } from "../engine/helpers.ts";
import { seededRandom } from "../helpers.ts";

const held = useEngine();

const sample = (weights: readonly number[]) => ({
  tokens: weights.map(() => 1),
  targets: weights.map(() => 2),
  weights: [...weights],
});
const ones = (length: number) => Array<number>(length).fill(1);
const scored = (...rows: readonly (readonly unknown[])[]) =>
  completed({
    loss: 1,
    loss_fn_outputs: rows.map((data) => ({ tensors: { logprobs: { data, dtype: "float32" } } })),
  });
type Sent = { gradients: { data: number[]; dtype: string }[] };

it.each([Number.NaN, Infinity, -Infinity, 1e39])(
  "a gradient of %d is refused with sample and position; no request is made and no null written",
  async (value) => {
    const samples = Array.from({ length: 20 }, () => sample(ones(300)));
    const rows = samples.map(() => new Float64Array(300));
    rows[17]![203] = value;
    const { session, requests } = await scriptedSession([completed({})]);
    expect(await rejection(session.customForwardBackward(samples, rows))).toMatchObject({
      code: "ERR_INPUT",
      sample: 17,
      position: 203,
      message: expect.stringContaining(`got ${value}`),
    });
    expect(requests).toEqual([]);
  },
);

it.each([
  ["NaN", 0x7fc0, "NaN"],
  ["infinity", 0x7f80, "Infinity"],
  ["minus infinity", 0xff80, "-Infinity"],
])("the bfloat16 bits of %s are refused likewise", async (_, bits, came) => {
  const { session, requests } = await scriptedSession([completed({})]);
  const gradients = { dtype: "bfloat16", rows: 1, row: () => Uint16Array.of(0x3f80, bits) } as const;
  expect(await rejection(session.customForwardBackward([sample([1, 1])], gradients))).toMatchObject({
    code: "ERR_INPUT",
    sample: 0,
    position: 1,
    message: expect.stringContaining(`got ${came}`),
  });
  expect(requests).toEqual([]);
});

it("a loss whose gradient becomes NaN at one token names it with the op, and nothing is sent", async () => {
  const loss = defineLoss({ loss: ({ logprobs }) => logprobs.add(1).log().sum() });
  const samples = Array.from({ length: 20 }, () => sample(ones(300)));
  const rows = samples.map(() => new Float32Array(300));
  rows[17]![203] = -2;
  const batch = createBatch({ weights: rows.map((row) => row.map(() => 1)), logprobs: rows });
  await expect(held.engine.run(loss, await batch)).rejects.toMatchObject({
    code: "ERR_NON_FINITE",
    sample: 17,
    position: 203,
    value: Number.NaN,
    op: "log",
    operands: [-1],
  });
  const { session, requests } = await scriptedSession([
    scored(...rows.map((row) => [...row])),
    completed({}),
  ]);
  const step = computeCustomForwardBackward(session, samples, loss, { engine: held.engine });
  expect(await rejection(step)).toMatchObject({ code: "ERR_NON_FINITE", sample: 17, position: 203 });
  expect(requests).toHaveLength(1);
});

it.each([
  ["null", null],
  ["a number beyond float32", -1e39],
  ["the text of minus infinity", "-Infinity"],
])(
  "%s for a log-probability is 0 where nothing is trained, and refused with its place where something is",
  async (_, value) => {
    const answer = scored([-0.5, value, -1]);
    const untrained = await scriptedSession([answer]);
    expect(await computeLogprobs(untrained.session, [sample([1, 0, 1])])).toEqual([
      Float32Array.of(-0.5, 0, -1),
    ]);
    const trained = await scriptedSession([answer]);
    const error = await rejection(computeLogprobs(trained.session, [sample([1, 1, 1])]));
    expect(error).toMatchObject({ code: "ERR_RESPONSE" });
    expect(error.message).toMatch(/sample 0, position 1/);
  },
);

it("typed arrays are sent as arrays of numbers, bfloat16 bits as their values", async () => {
  const samples = [sample([1, 1])];
  const bits = { dtype: "bfloat16", rows: 1, row: () => Uint16Array.of(0x3fc0, 0xbdcd) } as const;
  const { session, requests } = await scriptedSession([completed({}), completed({}), completed({})]);
  await session.customForwardBackward(samples, [Float32Array.of(1.5, 2)]);
  await session.customForwardBackward(samples, [Float64Array.of(0.1, -0)]);
  await session.customForwardBackward(samples, bits);
  const sent = requests.map(({ body }) => (JSON.parse(body) as Sent).gradients);
  expect(sent).toEqual([
    [{ data: [1.5, 2], dtype: "D_TYPE_FLOAT32" }],
    [{ data: [0.1, -0], dtype: "D_TYPE_FLOAT32" }],
    [{ data: [1.5, -0.1], dtype: "D_TYPE_BFLOAT16" }],
  ]);
});

it("gradients take the fewest digits that read back to the same float32 or bfloat16", async () => {
  const count = 20_000;
  const random = seededRandom(5);
  const samples = [sample(ones(count))];
  const loss = defineLoss({
    inputs: { factors: perToken() },
    loss: ({ logprobs, factors }) => logprobs.mul(factors).sum(),
  });
  const batch = await createBatch({
    weights: [ones(count)],
    logprobs: new Float32Array(count),
    inputs: { factors: Float32Array.from({ length: count }, () => 0.01 * random() - 0.005) },
  });
  // Characters of one number with its comma, on average; as doubles they would take 22.
  for (const [dtype, characters] of [
    ["float32", 12.9],
    ["bfloat16", 7.4],
  ] as const) {
    const { gradients } = await held.engine.run(loss, batch, { dtype });
    const { session, requests } = await scriptedSession([completed({})]);
    await session.customForwardBackward(samples, gradients);
    const text = requests[0]!.body.match(/"gradients":\[\{"data":\[([^\]]*)\]/)![1]!;
    expect(Math.abs((text.length + 1) / count - characters)).toBeLessThan(0.1);
    if (dtype === "float32") expect(Float32Array.from(text.split(","), Number)).toEqual(gradients.row(0));
  }
});

it("what a loss is given beside the log-probabilities never reaches the wire", async () => {
  const loss = defineLoss({
    inputs: { advantages: perSample(), reference: perToken() },
    loss: ({ logprobs, reference, advantages }) => logprobs.sub(reference).mul(advantages).mean(),
  });
  const { session, requests } = await scriptedSession([scored([-1, -2], [-3]), completed({})]);
  const inputs = { advantages: [0.123456, -7.654321], reference: [[-1.111111, -2.222222], [-3.333333]] };
  await computeCustomForwardBackward(session, [sample([1, 1]), sample([1])], loss, {
    engine: held.engine,
    inputs,
  });
  expect(requests).toHaveLength(2);
  for (const { body } of requests) {
    expect(body).not.toMatch(/advantages|reference|123456|654321|1\.111111|2\.222222|3\.333333/);
  }
});
