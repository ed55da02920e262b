// Sampling: what temperature, top-k, top-p, seeds and stop strings mean, and that the cache changes nothing.
import { beforeAll, describe, expect, test } from "vitest";
import type { NativeSampling, NativeSession } from "../../src/local/binding.ts";
import { ADAM, batchOf, CROSS_ENTROPY, TINY, trainer } from "./native.ts";

const CONFIG = { ...TINY, vocabulary: 257, context: 64 };

let session: NativeSession;
beforeAll(async () => {
  // Some training, so that the distributions are far from flat, on ASCII only.
  session = await trainer.createSession(CONFIG);
  for (let step = 0; step < 20; step++) {
    await session.forwardBackward(batchOf([40, 60], 1, 128), CROSS_ENTROPY, {}, false);
    await session.optimStep(ADAM);
  }
  await session.publish();
});

const PROMPTS = [[72, 105], [1, 2, 3, 4, 5, 6, 7], [200], [72, 105], [9, 8, 7, 6, 5, 4, 3]];

function request(
  prompts: readonly (readonly number[])[],
  options: Partial<NativeSampling> = {},
): NativeSampling {
  return {
    tokens: Int32Array.from(prompts.flat()),
    offsets: Int32Array.from([0, ...prompts].map((_, i) => prompts.slice(0, i).flat().length)),
    samples: 1,
    maxTokens: 12,
    temperature: 1,
    topP: 1,
    topK: -1,
    stop: [],
    endOfText: 256,
    seed: 1n,
    promptLogprobs: false,
    topPromptLogprobs: 0,
    ...options,
  };
}

const texts = async (options: Partial<NativeSampling>, prompts = PROMPTS) =>
  (await session.sample(request(prompts, options))).sequences.map(({ tokens }) => [...tokens]);

/** Log-probabilities of the next token after `row`, by a plain forward pass over every candidate. */
async function distribution(row: readonly number[]): Promise<number[]> {
  const batch = (target: number) => ({
    tokens: Int32Array.from(row),
    targets: Int32Array.from(row, (_, i) => (i === row.length - 1 ? target : 0)),
    weights: Float64Array.from(row, (_, i) => (i === row.length - 1 ? 1 : 0)),
    offsets: Int32Array.of(0, row.length),
  });
  const passes = Array.from({ length: 257 }, (_, token) =>
    session.forwardBackward(batch(token), CROSS_ENTROPY, {}, true),
  );
  return (await Promise.all(passes)).map(({ logprobs }) => logprobs.at(-1)!);
}

test("logprobs are those that a forward pass gives, prompts of all lengths side by side", async () => {
  const { sequences } = await session.sample(
    request(PROMPTS, { samples: 3, maxTokens: 30, temperature: 1.7 }),
  );
  expect(sequences).toHaveLength(15);
  for (const [i, { tokens, logprobs }] of sequences.entries()) {
    const prompt = PROMPTS[Math.floor(i / 3)]!;
    const whole = [...prompt, ...tokens];
    const row = whole.slice(0, -1);
    const scored = await session.forwardBackward(
      {
        tokens: Int32Array.from(row),
        targets: Int32Array.from(whole.slice(1)),
        weights: Float64Array.from(row, (_, t) => (t < prompt.length - 1 ? 0 : 1)),
        offsets: Int32Array.of(0, row.length),
      },
      CROSS_ENTROPY,
      {},
      true,
    );
    for (const [t, logprob] of logprobs.entries()) {
      expect(scored.logprobs[prompt.length - 1 + t], `sequence ${i}, token ${t}`).toBeCloseTo(logprob, 10);
    }
  }
});

test("temperature 0 takes the most likely token, as top-k 1 does", async () => {
  const greedy = await texts({ temperature: 0, maxTokens: 1 });
  for (const [i, prompt] of PROMPTS.entries()) {
    const next = await distribution(prompt);
    expect(greedy[i]![0]).toBe(next.indexOf(Math.max(...next)));
  }
  expect(await texts({ temperature: 0, seed: 5n })).toEqual(await texts({ topK: 1, seed: 9n }));
});

test("a seed fixes the text whatever is sampled beside it, another seed changes it", async () => {
  const options = { samples: 4, seed: 42n };
  const together = await texts(options);
  expect(await texts(options)).toEqual(together);
  expect(await texts({ ...options, seed: 43n })).not.toEqual(together);
  const alone = await texts(options, [PROMPTS[1]!]);
  expect(alone).toEqual(together.slice(4, 8));
  // A prompt that occurs twice goes on where its first samples ended.
  expect(together.slice(12, 16)).not.toEqual(together.slice(0, 4));
  expect(await texts({ ...options, samples: 8 }, [PROMPTS[0]!])).toEqual([
    ...together.slice(0, 4),
    ...together.slice(12, 16),
  ]);
});

describe("sampled frequencies follow the distribution", () => {
  const draw = async (options: Partial<NativeSampling>) => {
    const all = await texts({ ...options, samples: 4000, maxTokens: 1, seed: 3n }, [[9, 8, 7, 6, 5, 4, 3]]);
    const counts = new Array<number>(257).fill(0);
    for (const [token] of all) counts[token!]! += 1 / all.length;
    return counts;
  };
  const expected = async (temperature: number, keep: (rank: number, before: number) => boolean) => {
    const raw = (await distribution([9, 8, 7, 6, 5, 4, 3])).map((logprob) => Math.exp(logprob / temperature));
    const total = raw.reduce((a, b) => a + b);
    const ranked = raw.map((p, token) => ({ p: p / total, token })).sort((a, b) => b.p - a.p);
    let before = 0;
    const kept = ranked.filter(({ p }, rank) => {
      const stays = keep(rank, before);
      before += p;
      return stays;
    });
    const mass = kept.reduce((sum, { p }) => sum + p, 0);
    const result = new Array<number>(257).fill(0);
    for (const { p, token } of kept) result[token] = p / mass;
    return result;
  };
  const cases = [
    { name: "plain", options: {}, temperature: 1, keep: () => true },
    { name: "temperature 0.5", options: { temperature: 0.5 }, temperature: 0.5, keep: () => true },
    { name: "top-k 3", options: { topK: 3 }, temperature: 1, keep: (rank: number) => rank < 3 },
    {
      name: "top-p 0.7",
      options: { topP: 0.7 },
      temperature: 1,
      keep: (_: number, before: number) => before < 0.7,
    },
    {
      name: "temperature before top-p",
      options: { temperature: 2, topP: 0.5 },
      temperature: 2,
      keep: (_: number, before: number) => before < 0.5,
    },
  ];
  for (const { name, options, temperature, keep } of cases) {
    test(name, async () => {
      const [counts, wanted] = [await draw(options), await expected(temperature, keep)];
      for (const [token, p] of wanted.entries()) {
        if (p === 0) expect(counts[token], `token ${token}`).toBe(0);
        // Five standard deviations of 4000 draws, and a few draws for tokens that are all but impossible.
        expect(Math.abs(counts[token]! - p)).toBeLessThan(5 * Math.sqrt((p * (1 - p)) / 4000) + 3 / 4000);
      }
    });
  }
});

describe("a completion ends", () => {
  test("at a stop string, which it holds", async () => {
    const [plain] = await texts({ temperature: 0 }, [[72]]);
    const text = Buffer.from(plain!).toString("latin1");
    const stop = text.slice(4, 6);
    const { sequences } = await session.sample(request([[72]], { temperature: 0, stop: ["unseen", stop] }));
    expect([...sequences[0]!.tokens]).toEqual(plain!.slice(0, text.indexOf(stop) + 2));
    expect(sequences[0]!.stopped).toBe(true);
  });

  test("at the end of the text, after max_tokens, and where the context is full", async () => {
    const [first] = await texts({ temperature: 0, maxTokens: 1 }, [[72]]);
    const ended = await session.sample(request([[72]], { temperature: 0, endOfText: first![0]! }));
    expect(ended.sequences[0]).toMatchObject({ stopped: true, tokens: Int32Array.of(first![0]!) });
    const lengths = async (prompts: number[][], maxTokens: number) =>
      (await session.sample(request(prompts, { maxTokens, endOfText: -1 }))).sequences.map(
        ({ tokens, stopped }) => {
          expect(stopped).toBe(false);
          return tokens.length;
        },
      );
    const count = (length: number) => Array.from({ length }, (_, i) => i);
    expect(await lengths([[72], count(40)], 5)).toEqual([5, 5]);
    expect(await lengths([[72], count(63), count(40)], 1000)).toEqual([63, 1, 24]);
  });
});

test("prompts are scored under the published weights, with the likeliest alternatives", async () => {
  const { prompts } = await session.sample(request(PROMPTS, { promptLogprobs: true, topPromptLogprobs: 4 }));
  for (const [i, prompt] of PROMPTS.entries()) {
    const { logprobs, topTokens, topLogprobs } = prompts[i]!;
    expect(logprobs).toHaveLength(prompt.length);
    expect(logprobs[0]).toBe(0);
    expect(topTokens).toHaveLength(4 * (prompt.length - 1));
    for (let t = 1; t < prompt.length; t++) {
      const next = await distribution(prompt.slice(0, t));
      expect(logprobs[t]).toBeCloseTo(next[prompt[t]!]!, 10);
      const best = next.map((p, token) => ({ p, token })).sort((a, b) => b.p - a.p);
      for (let k = 0; k < 4; k++) {
        expect(topTokens[(t - 1) * 4 + k]).toBe(best[k]!.token);
        expect(topLogprobs[(t - 1) * 4 + k]).toBeCloseTo(best[k]!.p, 10);
      }
    }
  }
});

test("only published weights are sampled from", async () => {
  const own = await trainer.createSession(CONFIG);
  const sample = async () => {
    const { version, sequences } = await own.sample(request([[72]], { temperature: 0, maxTokens: 8 }));
    return { version, tokens: [...sequences[0]!.tokens] };
  };
  const initial = await sample();
  expect(initial.version).toBe(0);
  for (let step = 0; step < 5; step++) {
    await own.forwardBackward(batchOf([60], 2, 257), CROSS_ENTROPY, {}, false);
    await own.optimStep(ADAM);
  }
  expect(await sample()).toEqual(initial);
  expect(await own.publish()).toBe(5);
  const later = await sample();
  expect(later.version).toBe(5);
  expect(later.tokens).not.toEqual(initial.tokens);
});

test("requests that do not fit are refused, and an end cuts sampling short", async () => {
  const bad: [Partial<NativeSampling>, RegExp][] = [
    [{ tokens: Int32Array.of(257), offsets: Int32Array.of(0, 1) }, /token below 257/],
    [{ tokens: Int32Array.of(-1), offsets: Int32Array.of(0, 1) }, /token below 257/],
    [{ tokens: new Int32Array(64), offsets: Int32Array.of(0, 64) }, /1 to 63 tokens/],
    [{ offsets: Int32Array.of(0, 9999) }, /offsets/],
    [{ offsets: Int32Array.of(0, 0) }, /1 to 63 tokens/],
    [{ temperature: -1 }, /temperature/],
    [{ temperature: Number.NaN }, /temperature/],
    [{ topP: 0 }, /top_p/],
    [{ samples: 0 }, /num_samples/],
    [{ maxTokens: 0 }, /max_tokens/],
    [{ stop: "x" as never }, /stop/],
    [{ seed: 1 as never }, /seed: expected a BigInt/],
  ];
  for (const [options, message] of bad) {
    const outcome = (async () => session.sample(request(PROMPTS, options)))();
    await expect(outcome).rejects.toMatchObject({
      code: "ERR_INPUT",
      message: expect.stringMatching(message),
    });
  }
  const other = await trainer.createSession(CONFIG);
  const long = other.sample(request([[72]], { samples: 4000, maxTokens: 60, endOfText: 256 }));
  const queued = other.sample(request([[72]]));
  other.dispose();
  await expect(long).rejects.toMatchObject({ code: "ERR_ABORTED" });
  await expect(queued).rejects.toMatchObject({ code: "ERR_ABORTED" });
});
