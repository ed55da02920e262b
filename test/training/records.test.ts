// Pairs, completions and labels as samples: what lines up with what, and what is refused.
import { expect, test } from "vitest";
import { buildGroups, buildLabelled, buildPairs, buildResponses } from "../../src/training/records.ts";
import { SampleSet } from "../../src/training/sample-set.ts";

const rows = (input: unknown) => (input as ArrayLike<number>[]).map((row) => Array.from(row));
const PAIR = { prompt: [1, 2], chosen: [3, 4], rejected: [5] };

test("a pair is two samples that train on their responses", () => {
  const set = buildPairs([PAIR, { ...PAIR, chosen: { tokens: [9], weights: [0.5] } }]);
  expect(set).toMatchObject({ length: 2, groups: [2, 2], inputs: {}, trainedTokens: 5 });
  expect(set.samples[0]).toEqual({
    tokens: [1, 2, 3],
    targets: [2, 3, 4],
    weights: Float32Array.of(0, 1, 1),
  });
  expect(set.samples[1]).toMatchObject({ targets: [2, 5], weights: Float32Array.of(0, 1) });
  expect(set.samples[2]!.weights).toEqual(Float32Array.of(0, 0.5));
});

test("a response is a sample, and a group of its own", () => {
  const set = buildResponses([{ prompt: [1, 2], response: [3] }]);
  expect(set).toMatchObject({
    groups: [1],
    samples: buildPairs([{ ...PAIR, rejected: [3] }]).samples.slice(1),
  });
});

test("tokens may be typed arrays, BigInt or text", () => {
  const wide = { prompt: Int32Array.of(1), chosen: BigInt64Array.of(2n), rejected: ["9007199254740993"] };
  const [chosen, rejected] = buildPairs([wide]).samples;
  expect(chosen).toMatchObject({ tokens: [1], targets: [2n] });
  expect(rejected).toMatchObject({ targets: ["9007199254740993"] });
  expect(() => buildPairs([{ prompt: [1], chosen: [2], rejected: BigInt64Array.of(2n) }])).toThrow(
    "the same",
  );
});

test("the sampler's log-probabilities line up with the samples", () => {
  const set = buildGroups([
    {
      prompt: [1, 2, 3],
      completions: [
        { tokens: [4, 5], logprobs: [-0.5, -0.25] },
        { tokens: [], logprobs: [] },
      ],
    },
    { prompt: [7], completions: [{ tokens: [8n], logprobs: Float32Array.of(-2) }] },
  ]);
  expect(set.groups).toEqual([2, 1]);
  expect(rows(set.inputs.old)).toEqual([[0, 0, -0.5, -0.25], [0, 0], [-2]]);
  expect(set.samples.map(({ weights }) => Array.from(weights))).toEqual([[0, 0, 1, 1], [0, 0], [1]]);
});

test("beside each labelled sample stands the answer to another prompt, for the baseline", () => {
  const records = [
    { prompt: [1], response: [11], desirable: true },
    { prompt: [1], response: [12], desirable: false },
    { prompt: [2], response: [22], desirable: false },
  ];
  const set = buildLabelled(records);
  expect(set.groups).toEqual([2, 2, 2]);
  expect(set.inputs.labels).toEqual([1, 0, -1, 0, -1, 0]);
  expect(set.samples.map(({ tokens, targets }) => [tokens[0], targets[0]])).toEqual([
    [1, 11],
    [1, 22],
    [1, 12],
    [1, 22],
    [2, 22],
    [2, 11],
  ]);
  const plain = buildLabelled(records, { baseline: false });
  expect(plain).toMatchObject({ groups: [1, 1, 1], inputs: { labels: [1, -1, -1] } });
  expect(() => buildLabelled(records.slice(0, 2))).toThrow("labelled: expected two different prompts");
});

test("groups are picked with all that belongs to them, as often as wanted", () => {
  const set = buildPairs([PAIR, { ...PAIR, prompt: [7, 8, 9] }]).with({
    reference: [
      [0, -1, -2],
      [0, -3],
      [0, 0, -4, -5],
      [0, 0, -6],
    ],
    margins: [0.1, 0.2],
    rewards: [1, 2, 3, 4],
  });
  const picked = set.pick([1, 0, 1]);
  expect(picked.groups).toEqual([2, 2, 2]);
  expect(picked.samples.map((sample) => set.samples.indexOf(sample))).toEqual([2, 3, 0, 1, 2, 3]);
  expect(rows(picked.inputs.reference)[2]).toEqual([0, -1, -2]);
  expect(picked.inputs.margins).toEqual([0.2, 0.1, 0.2]);
  expect(picked.inputs.rewards).toEqual([3, 4, 1, 2, 3, 4]);
});

const pairs = (change: object) => () => buildPairs([PAIR, { ...PAIR, ...change }]);
const group = (completions: unknown) => () =>
  buildGroups([{ prompt: [1], completions: completions as never }]);
const label = (change: object) => () =>
  buildLabelled([{ prompt: [1], response: [2], desirable: true, ...change }], { baseline: false });
const set = buildPairs([PAIR, PAIR]);

test.each<[() => unknown, string]>([
  [() => buildPairs([]), "pairs: expected at least one record, got an array of 0"],
  [() => buildPairs([null as never]), "pairs[0]: expected a record, got null"],
  [pairs({ rejected: undefined }), "pairs[1].rejected: expected tokens, got undefined"],
  [pairs({ chosen: [] }), "pairs[1].chosen: expected at least one token, got none"],
  [pairs({ chosen: "text" }), 'pairs[1].chosen: expected tokens, got "text"'],
  [pairs({ rejected: [3, 4] }), "pairs[1]: expected two responses, got the same one"],
  [pairs({ prompt: [] }), "pairs[1].prompt: expected at least one token, got none"],
  [
    pairs({ choosen: [1] }),
    "pairs[1].choosen: expected one of prompt, chosen, rejected; did you mean chosen?",
  ],
  [pairs({ chosen: { tokens: [1], weights: [1, 1] } }), "pairs[1].chosen.weights: expected 1 numbers"],
  [group([]), "groups[0].completions: expected at least one completion"],
  [group([{ tokens: [1] }]), "groups[0].completions[0].logprobs: expected the sampler's"],
  [group([{ tokens: [1], logprobs: [] }]), "groups[0].completions[0].logprobs: expected 1 numbers"],
  [group([{ tokens: [], logprobs: [] }]), "groups[0].completions[0]: expected at least two tokens together"],
  [
    () => buildResponses([{ prompt: [1], response: [] }]),
    "responses[0].response: expected at least one token",
  ],
  [label({ desirable: 1 }), "labelled[0].desirable: expected true or false, got 1"],
  [label({ response: [] }), "labelled[0].response: expected at least one token"],
  [
    () => new SampleSet({ samples: set.samples.slice(1), groups: 2 }),
    "groups: expected a size that divides 3",
  ],
  [() => set.with({ reference: [[0, 0, 0]] }), "inputs.reference: expected 4 rows, one per sample, got 1"],
  [
    () => set.with({ reference: [[0, 0, 0], [0], [0, 0, 0], [0, 0]] }),
    "inputs.reference, sample 1: expected a row of 2 numbers, got an array of 1",
  ],
  [() => set.with({ margins: [1, 2, 3] }), "inputs.margins: expected 4 rows, 4 numbers (per sample) or 2"],
  [() => set.pick([0, 2]), "pick[1]: expected a group from 0 to 1, got 2"],
])("%s is refused", (call, message) => {
  expect(call).toThrow(message);
});
