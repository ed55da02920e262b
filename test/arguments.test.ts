// Wrong arguments of public functions: each is refused by a typed error that names it, none by whatever broke on it.
import { describe, expect, it } from "vitest";
import * as tokengrad from "../src/index.ts";
import { LossError, perSample, TokengradError, toFloat32 } from "../src/index.ts";
import * as losses from "../src/losses/index.ts";
import { useEngine } from "./engine/helpers.ts";

const held = useEngine();

// biome-ignore lint/suspicious/noExplicitAny: everything is called wrongly on purpose
type Anything = any;
const { createBatch, createEngine, defineLoss, dpo, groupAdvantages } = tokengrad as unknown as Record<
  string,
  (...args: Anything[]) => Anything
>;

const loss = defineLoss!({ params: { beta: 1 }, loss: ({ logprobs }: Anything) => logprobs.mean() });
const batch = () => createBatch!({ weights: [[1]], logprobs: [[-1]] });
const mean = ({ logprobs }: Anything) => logprobs.mean();

const WRONG: readonly unknown[] = [
  undefined,
  null,
  0,
  -1.5,
  Number.NaN,
  "x",
  "",
  true,
  1n,
  Symbol("s"),
  [],
  [null],
  [[]],
  [[null]],
  {},
  { x: 1 },
  { signal: {} },
  Object.create(null),
  new Set([1]),
  new Map([["x", 1]]),
  new Date(0),
  new DataView(new ArrayBuffer(4)),
  Promise.resolve(1),
  () => 1,
];

const CALLS: Readonly<Record<string, (value: unknown) => unknown>> = {
  createBatch: (value) => createBatch!(value),
  "weights of createBatch": (value) => createBatch!({ weights: value }),
  "a row of weights": (value) => createBatch!({ weights: [value] }),
  "a weight": (value) => createBatch!({ weights: [[value]] }),
  "logprobs of createBatch": (value) => createBatch!({ weights: [[1]], logprobs: value }),
  "groups of createBatch": (value) => createBatch!({ weights: [[1]], groups: value }),
  "inputs of createBatch": (value) => createBatch!({ weights: [[1]], inputs: value }),
  "an input of createBatch": (value) => createBatch!({ weights: [[1]], inputs: { x: value } }),
  "precision of createBatch": (value) => createBatch!({ weights: [[1]], precision: value }),
  "loss of createBatch": (value) => createBatch!({ weights: [[1]], loss: value }),
  with: async (value) => (await batch()).with(value),
  defineLoss: (value) => defineLoss!(value),
  "name of defineLoss": (value) => defineLoss!({ loss: mean, name: value }),
  "inputs of defineLoss": (value) => defineLoss!({ loss: mean, inputs: value }),
  "an input of defineLoss": (value) => defineLoss!({ loss: mean, inputs: { x: value } }),
  "params of defineLoss": (value) => defineLoss!({ loss: mean, params: value }),
  "a parameter of defineLoss": (value) => defineLoss!({ loss: mean, params: { x: value } }),
  "loss of defineLoss": (value) => defineLoss!({ loss: value }),
  "the result of a loss": (value) => defineLoss!({ loss: () => value }),
  "metrics of a loss": (value) =>
    defineLoss!({ loss: ({ logprobs }: Anything) => ({ loss: logprobs.mean(), metrics: value }) }),
  "an operand": (value) => defineLoss!({ loss: ({ logprobs }: Anything) => logprobs.add(value).mean() }),
  "an axis": (value) => defineLoss!({ loss: ({ logprobs }: Anything) => logprobs.mean(value) }),
  "options of an op": (value) =>
    defineLoss!({ loss: ({ logprobs }: Anything) => logprobs.cumsum(value).mean() }),
  createEngine: async (value) => (await createEngine!(value)).dispose(),
  "loss of run": async (value) => held.engine.run(value as Anything, await batch()),
  "batch of run": (value) => held.engine.run(loss, value as Anything),
  "options of run": async (value) => held.engine.run(loss, await batch(), value as Anything),
  "signal of run": async (value) => held.engine.run(loss, await batch(), { signal: value } as Anything),
  "params of run": async (value) => held.engine.run(loss, await batch(), { params: value } as Anything),
  "options of inspect": async (value) => held.engine.inspect(loss, await batch(), value as Anything),
  "options of checkGradients": async (value) =>
    held.engine.checkGradients(loss, await batch(), value as Anything),
  groupAdvantages: (value) =>
    defineLoss!({
      inputs: { r: perSample() },
      loss: ({ logprobs, r }: Anything) => logprobs.mul(groupAdvantages!(r, value)).mean(),
    }),
  toFloat32: (value) => toFloat32(value as Anything),
  ...Object.fromEntries(
    Object.entries(losses)
      .filter(([name]) => !["groupAdvantages", "klEstimate", "sampleMean", "sampleSum"].includes(name))
      .map(([name, build]) => [name, build as (value: unknown) => unknown]),
  ),
};

/** What a call throws or rejects with; undefined of one that is taken. */
async function refusal(call: () => unknown): Promise<(Error & { code: string; path?: string }) | undefined> {
  try {
    await call();
  } catch (error) {
    return error as Error & { code: string; path?: string };
  }
  return undefined;
}

describe.each(Object.entries(CALLS))("%s", (_, call) => {
  it("takes a wrong value or refuses it by a typed error", async () => {
    let taken = 0;
    for (const value of WRONG) {
      const error = await refusal(() => call(value));
      if (error !== undefined) expect(error).toBeInstanceOf(TokengradError);
      else taken++;
    }
    expect(taken).toBeLessThan(WRONG.length);
  });
});

it.each<[string, () => unknown, string]>([
  ["createBatch()", () => createBatch!(), "batch: expected an object, got undefined"],
  ["a list of rows as options", () => createBatch!([[1]]), "batch: expected an object, got an array of 1"],
  [
    "null as inputs",
    () => createBatch!({ weights: [[1]], inputs: null }),
    "inputs: expected an object of inputs by name, got null",
  ],
  [
    "a Map as inputs",
    () => createBatch!({ weights: [[1]], inputs: new Map() }),
    "inputs: expected an object of inputs by name, got a Map",
  ],
  [
    "inputs not awaited",
    () => createBatch!({ weights: [[1]], inputs: Promise.resolve({}) }),
    "inputs: expected an object of inputs by name, got a Promise",
  ],
  [
    "a Set of rows",
    () => createBatch!({ weights: new Set([[1]]) }),
    "weights: expected one row of weights per sample, got a Set",
  ],
  [
    "a Set as a row",
    () => createBatch!({ weights: [new Set([1])] }),
    "weights, sample 0: expected a row of numbers, got a Set",
  ],
  ["null as changes", async () => (await batch()).with(null), "with: expected an object, got null"],
  [
    "no batch",
    () => held.engine.run(loss, undefined as Anything),
    "batch: expected what createBatch gives, got undefined",
  ],
  [
    "a batch not awaited",
    () => held.engine.run(loss, batch()),
    "batch: expected what createBatch gives, got a Promise",
  ],
  [
    "null as options of run",
    async () => held.engine.run(loss, await batch(), null as Anything),
    "options: expected an object, got null",
  ],
  [
    "a signal that is none",
    async () => held.engine.run(loss, await batch(), { signal: {} } as Anything),
    "signal: expected an AbortSignal, got an object",
  ],
  [
    "null as params of run",
    async () => held.engine.run(loss, await batch(), { params: null } as Anything),
    "params: expected an object, got null",
  ],
  ["dpo(null)", () => dpo!(null), "dpo: expected an object, got null"],
  ["createEngine(null)", () => createEngine!(null), "engine: expected an object, got null"],
  [
    "float32 numbers as bfloat16 bits",
    () => toFloat32(Float32Array.of(1) as Anything),
    "bits: expected a Uint16Array, got a Float32Array of 1",
  ],
])("%s is refused in words", async (_, call, message) => {
  expect(await refusal(call)).toMatchObject({ name: "InputError", code: "ERR_INPUT", message });
});

it.each<[string, () => unknown, string]>([
  ["defineLoss()", () => defineLoss!(), "defineLoss: expected an object, got undefined"],
  ["a bare function", () => defineLoss!(mean), "defineLoss: expected an object, got a function"],
  ["no loss function", () => defineLoss!({}), "defineLoss: loss: expected a function, got undefined"],
  [
    "a misspelt part",
    () => defineLoss!({ loss: mean, input: {} }),
    "defineLoss: input: expected one of name, inputs, params, loss; did you mean inputs?",
  ],
  [
    "null as inputs",
    () => defineLoss!({ loss: mean, inputs: null }),
    "defineLoss: inputs: expected an object by name, got null",
  ],
  [
    "a list as inputs",
    () => defineLoss!({ loss: mean, inputs: ["reference"] }),
    "defineLoss: inputs: expected an object by name, got an array of 1",
  ],
  [
    "null as params",
    () => defineLoss!({ loss: mean, params: null }),
    "defineLoss: params: expected an object by name, got null",
  ],
  [
    "a name that is no string",
    () => defineLoss!({ loss: mean, name: 1 }),
    "defineLoss: name: expected a string, got 1",
  ],
  [
    "a misspelt part of the result",
    () => defineLoss!({ loss: ({ logprobs }: Anything) => ({ loss: logprobs.mean(), metric: {} }) }),
    'loss: "metric" returned: expected one of loss, metrics, terms, values; did you mean metrics?',
  ],
])("%s in a loss is refused with the line", async (_, call, message) => {
  const error = await refusal(call);
  expect(error).toBeInstanceOf(LossError);
  expect(error?.message.replace(/ \(at .*$/, "")).toBe(message);
  expect((error as unknown as LossError).source).toContain("arguments.test.ts");
});
