// Advantages at their edges; their values in general are held against those of the public trainers in test/golden.
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  discountedReturns,
  gaeAdvantages,
  groupNormAdvantages,
  klCenteredAdvantages,
  opoAdvantages,
  passAtKAdvantages,
  reinforcePlusPlusAdvantages,
  rlooAdvantages,
} from "../../src/training/advantages/index.ts";

const zeros = (count: number) => Array(count).fill(0);
const plain = (rows: Float64Array[]) => rows.map((row) => [...row]);

test("equal rewards give exactly 0 in every way there is", () => {
  const reward = fc.double({ min: -1e6, max: 1e6, noNaN: true });
  fc.assert(
    fc.property(reward, fc.integer({ min: 1, max: 12 }), (value, size) => {
      const rewards = Array(2 * size).fill(value);
      const all = [
        ...(["group", "batch", "none"] as const).map((scale) =>
          groupNormAdvantages(rewards, { groups: size, scale, eps: 0 }),
        ),
        groupNormAdvantages(rewards, { groups: size, correction: 0, eps: 0 }),
        rlooAdvantages(rewards, { groups: size, normalize: true }),
        opoAdvantages(rewards, { groups: size, lengths: rewards.map((_, i) => i) }),
        passAtKAdvantages(rewards, { groups: size, normalize: true, eps: 0 }),
      ];
      for (const advantages of all) expect([...advantages].map(Math.abs)).toEqual(zeros(2 * size));
      const rows = rewards.map(() => [value]);
      expect(plain(reinforcePlusPlusAdvantages(rows)).flat().map(Math.abs)).toEqual(zeros(2 * size));
    }),
  );
});

test("both conventions of the spread, and sums of 0", () => {
  const rewards = [1, 2, 3, 10];
  const sample = groupNormAdvantages(rewards, { groups: [3, 1], eps: 0 });
  const population = groupNormAdvantages(rewards, { groups: [3, 1], eps: 0, correction: 0 });
  expect([...sample]).toEqual([-1, 0, 1, 0]);
  expect(population[2]).toBeCloseTo(Math.sqrt(1.5), 12);
  expect([...rlooAdvantages(rewards, { groups: 4 })].reduce((a, b) => a + b)).toBeCloseTo(0, 12);
});

test("a group of one gets 0, or its reward where that is asked for", () => {
  const one = { groups: 1, eps: 1 } as const;
  expect([...groupNormAdvantages([4, -2], one)]).toEqual([0, 0]);
  expect([...groupNormAdvantages([4, -2], { ...one, singleton: "raw" })]).toEqual([2, -1]);
  expect([...rlooAdvantages([4, -2], { groups: 1 })]).toEqual([0, 0]);
  expect([...passAtKAdvantages([4, -2], { groups: 1 })]).toEqual([0, 0]);
});

test("a reward that could not be found takes no part and gets 0", () => {
  const rewards = [1, Number.NaN, 3, Number.NaN];
  const groups = [3, 1];
  expect([...groupNormAdvantages(rewards, { groups, scale: "none" })]).toEqual([-1, 0, 1, 0]);
  const ofBatch = groupNormAdvantages(rewards, { groups, scale: "batch", eps: 0 });
  expect(ofBatch[2]).toBeCloseTo(Math.SQRT1_2, 12);
  expect([ofBatch[1], ofBatch[3]]).toEqual([0, 0]);
  expect([...rlooAdvantages(rewards, { groups })]).toEqual([-2, 0, 2, 0]);
  expect([...opoAdvantages(rewards, { groups, lengths: [1, 9, 3, 9] })]).toEqual([-1.5, 0, 0.5, 0]);
  expect([...passAtKAdvantages(rewards, { groups })]).toEqual([0, 0, 2, 0]);
});

test("of pass@k two best ones give nothing", () => {
  expect([...passAtKAdvantages([5, 5, 1], { groups: 3 })]).toEqual([0, 0, 0]);
});

test("completions without tokens leave the baseline of OPO alone", () => {
  expect([...opoAdvantages([1, 3], { groups: 2, lengths: [0, 0] })]).toEqual([-1, 1]);
  expect([...opoAdvantages([1, 3], { groups: 2, lengths: [0, 5] })]).toEqual([-2, 0]);
});

test("GAE does not read what is masked, and with lambda 1 is the return less the value", () => {
  const rewards = [[Number.NaN, 1, 2, Infinity, 4]];
  const values = [[Number.NaN, 0.5, 0.25, Number.NaN, 0.125]];
  const mask = [[0, 1, 1, 0, 1]];
  const options = { values, mask, gamma: 0.5, lambda: 1 };
  expect(plain(gaeAdvantages(rewards, options))).toEqual([[0, 1 + 1 + 1 - 0.5, 2 + 2 - 0.25, 0, 4 - 0.125]]);
});

test("returns begin anew behind a masked token", () => {
  const rewards = [[1, 10, 100], []];
  expect(plain(discountedReturns(rewards, { gamma: 0.5 }))).toEqual([[31, 60, 100], []]);
  expect(plain(discountedReturns(rewards, { gamma: 0.5, mask: [[1, 0, 1], []] }))).toEqual([
    [1, 60, 100],
    [],
  ]);
});

test("the centred divergence moves no mean", () => {
  const old = [[-1, -2, Number.NaN], [-0.5]];
  const reference = [[-1.5, -1, 7], [-3]];
  const advantages = klCenteredAdvantages(old, {
    advantages: [1, -1],
    reference,
    mask: [[1, 1, 0], [1]],
    coef: 0.1,
  });
  expect(advantages[0]![2]).toBe(0);
  const changes = [advantages[0]![0]! - 1, advantages[0]![1]! - 1, advantages[1]![0]! + 1];
  expect(changes.reduce((a, b) => a + b)).toBeCloseTo(0, 12);
  expect(changes[1]).toBeGreaterThan(0);
});

test.each<[() => unknown, string]>([
  [() => groupNormAdvantages([1, Infinity], { groups: 2 }), "rewards, sample 1: expected a finite number"],
  [() => groupNormAdvantages([1, 2, 3], { groups: 2 }), "groups: expected a size that divides 3 samples"],
  [() => groupNormAdvantages([1, 2], { groups: [1] }), "groups: expected sizes that add up to 2"],
  [() => groupNormAdvantages([1], { groups: 1, eps: -1 }), "groupNormAdvantages.eps: expected"],
  [() => groupNormAdvantages([1], { groups: 1, scale: "all" as never }), "groupNormAdvantages.scale"],
  [() => groupNormAdvantages([1], { groups: 1, correction: 2 as never }), "expected 0 or 1, got 2"],
  [() => groupNormAdvantages("12" as never, { groups: 1 }), "rewards: expected a list of numbers"],
  [() => rlooAdvantages([1], { groups: 1, normalise: true } as never), "did you mean normalize?"],
  [() => opoAdvantages([1, 2], { groups: 2, lengths: [1] }), "lengths: expected 2 numbers"],
  [() => opoAdvantages([1, 2], { groups: 2, lengths: [1, -1] }), "lengths[1]: expected"],
  [() => discountedReturns([[1, Number.NaN]]), "rewards, sample 0, position 1: expected a finite number"],
  [() => discountedReturns([[1]], { gamma: 1.5 }), "discountedReturns.gamma"],
  [() => discountedReturns([1] as never), "rewards: expected rows of numbers"],
  [() => gaeAdvantages([[1, 2]], { values: [[1]] }), "values, sample 0: expected a row of 2 numbers"],
  [() => gaeAdvantages([[1]], { values: [[1], [2]] }), "values: expected 1 rows"],
  [
    () => klCenteredAdvantages([[1]], { advantages: [1, 2], reference: [[1]], coef: 1 }),
    "advantages: expected 1 numbers",
  ],
])("%s is refused", (call, message) => {
  expect(call).toThrow(message);
});
