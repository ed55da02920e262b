// What is refused before anything is sent, naming sample and position.

import { describe, expect, test } from "vitest";
import type { Sample } from "../../src/client/sample.ts";
import type { Session } from "../../src/client/session.ts";
import { completed, gradientsFor, rejection, SAMPLES, scriptedSession } from "./server.ts";

/** The error that the call gives, after making sure that it sent nothing. */
async function refused(call: (session: Session) => Promise<unknown>) {
  const { session, requests } = await scriptedSession([]);
  const error = await rejection(call(session));
  expect(requests).toEqual([]);
  expect(error.code).toBe("ERR_INPUT");
  return error;
}

const withSecond = (change: object): Sample[] => [SAMPLES[0]!, { ...SAMPLES[1]!, ...change }];
const forward = (change: object) => refused((session) => session.forward(withSecond(change)));

describe("tokens and targets", () => {
  test.each([
    -1,
    1.5,
    2 ** 53,
    Number.NaN,
    null,
    "abc",
    "-1",
    "1e3",
    "",
    2n ** 63n,
    "9223372036854775808",
    -1n,
    undefined,
    {},
  ])("refuse %s", async (token) => {
    for (const name of ["tokens", "targets"]) {
      const error = await forward({ [name]: [1, token] });
      expect(error).toMatchObject({ path: `samples[1].${name}`, sample: 1, position: 1 });
      expect(error.message).toMatch(
        new RegExp(`^samples\\[1\\]\\.${name}, sample 1, position 1: expected an integer`),
      );
    }
  });

  test("say what is expected and what came", async () => {
    expect((await forward({ targets: [2 ** 53, 1] })).message).toBe(
      "samples[1].targets, sample 1, position 0: expected an integer from 0 to 2^53 - 1 " +
        "(larger ids as BigInt or decimal string), got 9007199254740992",
    );
  });
});

describe("weights", () => {
  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, 1e39, 1e-50, null, "1", undefined])(
    "refuse %s",
    async (weight) => {
      const error = await forward({ weights: [0, weight] });
      expect(error).toMatchObject({ path: "samples[1].weights", sample: 1, position: 1 });
    },
  );
});

describe("rows", () => {
  test.each(["targets", "weights"])("of another length: %s", async (name) => {
    const error = await forward({ [name]: [1, 1, 1] });
    expect(error).toMatchObject({ path: `samples[1].${name}`, sample: 1 });
    expect(error.message).toBe(`samples[1].${name}, sample 1: expected 2 values, as many as tokens, got 3`);
  });

  test.each([
    [{ tokens: undefined }, "samples[1].tokens, sample 1: expected an array of tokens, got undefined"],
    [{ tokens: "12" }, 'samples[1].tokens, sample 1: expected an array of tokens, got "12"'],
    [{ tokens: [] }, "samples[1].tokens, sample 1: expected at least one token, got none"],
    [{ targets: null }, "samples[1].targets, sample 1: expected an array, got null"],
    [{ weights: undefined }, "samples[1].weights, sample 1: expected an array, got undefined"],
  ])("missing or empty: %j", async (change, message) => {
    expect((await forward(change)).message).toBe(message);
  });

  test("no samples at all", async () => {
    expect((await refused((s) => s.forward([]))).message).toBe(
      "samples: expected at least one sample, got none",
    );
    expect((await refused((s) => s.forward({} as never))).message).toBe(
      "samples: expected an array, got an object",
    );
  });

  test("that a built-in loss needs", async () => {
    const missing = await refused((s) => s.forwardBackward(SAMPLES, { type: "ppo" }));
    expect(missing.message).toBe("samples[0].advantages, sample 0: expected an array, got undefined");
    const rows = { advantages: [1, 1, 1], logprobs: [0, 0, 0] };
    const noReference = await refused((s) =>
      s.forwardBackward([{ ...SAMPLES[0]!, ...rows }], { type: "grpo", beta: 1 }),
    );
    expect(noReference.path).toBe("samples[0].referenceLogprobs");
    const infinite = { advantages: [1, 1, 1], logprobs: [0, 0, -Infinity] };
    const notFinite = await refused((s) =>
      s.forwardBackward([{ ...SAMPLES[0]!, ...infinite }], { type: "ppo" }),
    );
    expect(notFinite).toMatchObject({ path: "samples[0].logprobs", sample: 0, position: 2 });
  });
});

describe("routed experts", () => {
  test.each([
    [{ data: [1, 2], shape: [2, 1, 1] }, "samples[1].routedExperts.data"],
    [{ data: new Uint16Array(2), shape: [2, 1] }, "samples[1].routedExperts.shape"],
    [{ data: new Uint16Array(2), shape: [2, 1, 0] }, "samples[1].routedExperts.shape"],
    [{ data: new Uint16Array(3), shape: [2, 1, 2] }, "samples[1].routedExperts.data"],
  ])("refuse %j", async (routedExperts, path) => {
    expect(await forward({ routedExperts })).toMatchObject({ path, sample: 1 });
  });
});

describe("gradients", () => {
  const custom = (gradients: unknown) => refused((s) => s.customForwardBackward(SAMPLES, gradients as never));

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -Infinity, 3.5e38, null, "1"])(
    "refuse %s",
    async (value) => {
      const error = await custom([
        [0, 0, 0],
        [0, value],
      ]);
      expect(error).toMatchObject({ path: "gradients[1]", sample: 1, position: 1 });
      expect(error.message).toMatch(/^gradients\[1\], sample 1, position 1: expected a (finite )?number/);
    },
  );

  test("refuse what the service would throw away: a gradient where the weight is 0", async () => {
    expect((await custom([[0, 1, 2], new Float32Array([-0.5, 0])])).message).toBe(
      "gradients[1], sample 1, position 0: expected 0, since the service ignores gradients where the weight is 0, got -0.5",
    );
    const rows = [new Uint16Array([0x8000, 1, 1]), new Uint16Array([0x3f80, 0])];
    const bits = await custom({ dtype: "bfloat16", rows: 2, row: (i: number) => rows[i] });
    expect(bits).toMatchObject({ path: "gradients[1]", sample: 1, position: 0 });
  });

  test.each([
    [0x7f80, "Infinity"],
    [0xff80, "-Infinity"],
    [0x7fc0, "NaN"],
  ])("refuse bfloat16 bits %d", async (bits, text) => {
    const rows = [new Uint16Array(3), new Uint16Array([0, bits])];
    const error = await custom({ dtype: "bfloat16", rows: 2, row: (i: number) => rows[i] });
    const problem = `expected a finite number within float32's range, got ${text}`;
    expect(error.message).toBe(`gradients[1], sample 1, position 1: ${problem}`);
  });

  test.each([
    [[[0, 0, 0]], "gradients: expected 2 rows, one per sample, got 1"],
    [[[0, 0, 0], [0]], "gradients[1], sample 1: expected 2 values, as many as targets, got 1"],
    [[[0, 0, 0], 5], "gradients[1], sample 1: expected an array, got 5"],
    [
      { dtype: "float64", rows: 2, row: () => [] },
      'gradients.dtype: expected "float32" or "bfloat16", got "float64"',
    ],
    [
      { dtype: "bfloat16", rows: 2, row: () => new Float32Array(3) },
      "gradients[0], sample 0: expected a Uint16Array of bfloat16 bits",
    ],
    [{}, "gradients: expected rows of numbers or an object with `row`, got an object"],
    [undefined, "gradients: expected rows of numbers or an object with `row`, got undefined"],
  ])("refuse %j", async (gradients, message) => {
    expect((await custom(gradients)).message).toBe(message);
  });
});

describe("losses", () => {
  test.each([
    [{ type: "sft" }, /^loss\.type: expected cross_entropy, .*, got "sft"/],
    [undefined, /^loss\.type: expected cross_entropy, .*, got undefined/],
    [{ type: "dro" }, /^loss\.beta: missing/],
    [{ type: "ppo", clipLowThreshold: 1.2 }, /^loss\.clipLowThreshold: expected a finite number/],
    [{ type: "cross_entropy", beta: 1 }, /^loss\.beta: expected no names here/],
    [{ type: "grpo", aggType: "sum" }, /^loss\.aggType: expected "fixed_horizon" or/],
  ])("refuse %j", async (loss, message) => {
    expect((await refused((s) => s.forwardBackward(SAMPLES, loss as never))).message).toMatch(message);
  });
});

describe("sampling", () => {
  test.each([
    [[], {}, /^prompts: expected an array with at least one prompt/],
    [[[]], {}, /^prompts\[0\]: expected at least one token/],
    [[[1], [2, -1]], {}, /^prompts\[1\], sample 1, position 1: expected an integer/],
    [
      [[1]],
      { max_tokens: 5 },
      /^sample\.max_tokens: expected one of numSamples, maxTokens, .*; did you mean maxTokens\?/,
    ],
    [[[1]], { maxTokens: 0 }, /^sample\.maxTokens: expected an integer of at least 1, got 0/],
    [[[1]], { topkPromptLogprobs: 21 }, /^sample\.topkPromptLogprobs: expected an integer from 0 to 20/],
    [[[1]], { seed: 2 ** 60 }, /^sample\.seed: expected a 64-bit integer/],
    [[[1]], { stop: [5] }, /^sample\.stop: expected an array of strings/],
  ])("refuses %j with %j", async (prompts, sampling, message) => {
    expect((await refused((s) => s.sample(prompts, sampling as never))).message).toMatch(message);
  });
});

describe("samples that change while they are sent", () => {
  test.each(["tokens", "targets", "weights"] as const)(
    "are refused where a row is shorter: %s",
    async (name) => {
      const row: number[] = [1, 1];
      const error = await refused((session) => {
        const call = session.forward(withSecond({ [name]: row }));
        row.length = 1;
        return call;
      });
      expect(error).toMatchObject({ path: `samples[1].${name}`, sample: 1 });
      expect(error.message).toContain("expected 2 values, as many as when the call began, got 1");
    },
  );

  test("are those that the list held when the call began", async () => {
    const { session, requests } = await scriptedSession([completed({})]);
    const samples = [...SAMPLES];
    const call = session.customForwardBackward(samples, gradientsFor(SAMPLES, 0.5));
    samples.length = 1;
    await call;
    expect(JSON.parse(requests[0]!.body).samples).toHaveLength(2);
  });
});

test("routed experts that are nothing are refused", async () => {
  expect((await forward({ routedExperts: null })).message).toMatch(
    /^samples\[1\]\.routedExperts, sample 1: expected an object with `data` and `shape`, got null$/,
  );
});
