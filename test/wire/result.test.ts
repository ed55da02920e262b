// Results read through the addon: beside JSON.parse, cut anywhere, faults.
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { nativeWire } from "../../src/wire/binding.ts";
import { ResultError } from "../../src/wire/errors.ts";
import {
  LOGPROBS_IN_OPERATION,
  LOGPROBS_IN_OUTPUT,
  type ResultOptions,
  readResult,
} from "../../src/wire/result.ts";
import { lateness } from "../helpers.ts";
import { inParts, layoutOf } from "./helpers.ts";

const rowsOf = (data: readonly (readonly (number | null)[])[]) => ({
  loss: 1.5,
  loss_fn_outputs: data.map((row) => ({ tensors: { logprobs: { data: row, dtype: "float32" } } })),
});

/** Reads rows that are trained where `weights` are not 0. */
function read(
  text: string,
  weights: readonly (readonly number[])[],
  options: Partial<ResultOptions> & { parts?: number } = {},
) {
  const layout = layoutOf(weights);
  const { packed = false, parts = 10, ...rest } = options;
  const values = weights.flat();
  const output = new Float32Array(packed ? values.filter((weight) => weight !== 0).length : values.length);
  const done = readResult(inParts(text, parts), {
    path: LOGPROBS_IN_OUTPUT,
    layout,
    output,
    packed,
    ...rest,
  });
  return done.then((result) => ({ ...result, output }));
}

/** A result without samples that are like the one before. */
function withoutRepeats(value: unknown) {
  const { loss_fn_outputs: samples, ...rest } = value as { loss_fn_outputs: unknown[] };
  const texts = samples.map((sample) => JSON.stringify(sample));
  return { ...rest, loss_fn_outputs: samples.filter((_, i) => texts[i] !== texts[i - 1]) };
}

describe("a result", () => {
  const weights = [
    [0, 1, 1],
    [1, 0, 0, 1],
  ];
  const data = [
    [0, -1.5, -2],
    [-0.1, 0, 0, -4],
  ];

  it("gives its rows and everything else", async () => {
    const { value, rows, output } = await read(JSON.stringify(rowsOf(data)), weights);
    expect([...output]).toEqual([0, -1.5, -2, Math.fround(-0.1), 0, 0, -4]);
    expect(value).toEqual(rowsOf([[]]));
    expect(rows).toBe(2);
  });

  it("gives what is not alike in its samples", async () => {
    const samples = data.map((row, sample) => ({ ...rowsOf([row]).loss_fn_outputs[0]!, sample }));
    const { value } = await read(JSON.stringify({ loss_fn_outputs: samples }), weights);
    const left = data.map((_, sample) => ({ ...rowsOf([[]]).loss_fn_outputs[0]!, sample }));
    expect(value).toEqual({ loss_fn_outputs: left });
  });

  it("gives packed rows", async () => {
    const { output } = await read(JSON.stringify(rowsOf(data)), weights, { packed: true });
    expect([...output]).toEqual([-1.5, -2, Math.fround(-0.1), -4]);
  });

  it("may lie in an operation", async () => {
    const text = JSON.stringify({ id: "x", status: "DONE", output: rowsOf(data) }, undefined, 2);
    const { value, rows } = await read(text, weights, { path: LOGPROBS_IN_OPERATION });
    expect(value).toEqual({ id: "x", status: "DONE", output: rowsOf([[], []]) });
    expect(rows).toBe(2);
  });

  it("may have no rows", async () => {
    for (const value of [
      {},
      { status: "PENDING" },
      { loss_fn_outputs: [] },
      { payload_id: "p", metrics: { a: 1 } },
    ]) {
      expect(await read(JSON.stringify(value), weights)).toMatchObject({ value, rows: 0 });
    }
  });

  it("has 0 for null where a position is not trained", async () => {
    const { output } = await read(
      JSON.stringify(
        rowsOf([
          [null, 1, 2],
          [1, null, null, 2],
        ]),
      ),
      weights,
    );
    expect([...output]).toEqual([0, 1, 2, 1, 0, 0, 2]);
  });

  it("is the same as JSON.parse makes of it, however it is cut", async () => {
    const number = fc.oneof(
      fc.double({ noNaN: true, min: -1e38, max: 1e38 }),
      fc.float({ noNaN: true, noDefaultInfinity: true, max: 0 }),
      fc.integer(),
    );
    const row = fc.array(number, { minLength: 1, maxLength: 30 });
    const sample = fc.tuple(row, fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })));
    await fc.assert(
      fc.asyncProperty(
        fc.array(sample, { minLength: 1, maxLength: 5 }),
        fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
        fc.nat({ max: 3 }),
        fc.integer({ min: 1, max: 200 }),
        async (samples, others, indent, parts) => {
          const outputs = (empty: boolean) => ({
            ...others,
            loss_fn_outputs: samples.map(([row, others]) => ({
              ...others,
              tensors: { ...others, logprobs: { shape: [row.length], data: empty ? [] : row } },
            })),
          });
          const text = JSON.stringify(outputs(false), undefined, indent);
          const { value, output } = await read(
            text,
            samples.map(([row]) => row.map(() => 1)),
            { parts },
          );
          expect(withoutRepeats(value)).toEqual(withoutRepeats(JSON.parse(JSON.stringify(outputs(true)))));
          expect(output).toEqual(
            Float32Array.from(samples.flatMap(([row]) => JSON.parse(JSON.stringify(row)))),
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  it("of many values arrives whole", async () => {
    const many = Array.from({ length: 40 }, () => Array.from({ length: 8192 }, () => -10 * Math.random()));
    const { output, rows } = await read(
      JSON.stringify(rowsOf(many)),
      many.map((row) => row.map(() => 1)),
      { parts: 65_536 },
    );
    expect(rows).toBe(40);
    expect(output).toEqual(Float32Array.from(many.flat()));
  });
});

describe("a fault", () => {
  const weights = [[1], [0, 1, 1]];
  const fault = async (text: string, options = {}) => {
    const error = await read(text, weights, options).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ResultError);
    return error as ResultError;
  };

  it.each([
    ["null", "[0,1,null]", 2, "got null"],
    ["too large", "[0,1,1e39]", 2, "got 1e39"],
    ["a string", '[0,"1",2]', 1, 'got "1"'],
    ["NaN", "[0,NaN,2]", 1, "got NaN"],
    ["a short row", "[0,1]", undefined, "expected 3 numbers, one per target, got 2"],
    ["a long row", "[0,1,2,3]", undefined, "expected 3 numbers, one per target, got more"],
    ["no row", "null", undefined, "expected an array of numbers"],
  ])("names sample and position: %s", async (_, row, position, message) => {
    const broken = JSON.stringify(rowsOf([[1]])).replace(
      /\]\}$/,
      `,{"tensors":{"logprobs":{"data":${row}}}}]}`,
    );
    const error = await fault(broken);
    expect(error).toMatchObject({ code: "ERR_RESPONSE", sample: 1, position, garbled: false });
    expect(error.message).toContain(message);
    expect(error.message).toMatch(/^loss_fn_outputs\.\*\.tensors\.logprobs\.data, sample 1/);
  });

  it("is a row too few or too many", async () => {
    expect((await fault(JSON.stringify(rowsOf([[1]])))).message).toContain(
      "sample 1: expected a row, got none",
    );
    const more = await fault(JSON.stringify(rowsOf([[1], [1, 2, 3], [1]])));
    expect(more.message).toContain("expected 2 entries");
    expect(more).toMatchObject({ sample: undefined, garbled: false });
  });

  it("is a text that ends too soon, wherever", async () => {
    const whole = JSON.stringify(rowsOf([[1], [1, 2, 3]]));
    for (let length = 0; length < whole.length; length++) {
      const error = await fault(whole.slice(0, length), { parts: 7 });
      expect(error.garbled).toBe(true);
      expect(error.message).toContain(length === 0 ? "got nothing" : `after ${length} bytes`);
    }
  });

  it("is a text that is no JSON", async () => {
    for (const text of ["", " \n", "<html></html>", "{} {}", '{"a" 1}', "[1,]"])
      expect((await fault(text)).garbled).toBe(true);
    const inRow = JSON.stringify(rowsOf([[1], [1, 2, 3]])).replace("1,2,3", "1,\u0000,3");
    expect(await fault(inRow)).toMatchObject({ sample: 1, position: 1, garbled: true });
  });

  it("is a text that is too deep", async () => {
    const deep = await fault("[".repeat(100));
    expect(deep.message).toContain("at most 64 levels");
    expect(deep.garbled).toBe(false);
  });

  it("is a text with too much beside its rows", async () => {
    const most = 64 * 1024 * 1024;
    const large = await fault(`"${"x".repeat(most)}`, { parts: 1024 * 1024 });
    expect(large.message).toContain(`at most ${most} bytes beside the rows`);
    expect(large.garbled).toBe(false);
  });

  const options = () => ({
    path: LOGPROBS_IN_OUTPUT,
    layout: layoutOf([[1]]),
    output: new Float32Array(1),
    packed: false,
  });

  it.each([
    ["an error", new RangeError("cut")],
    ["one that looks like a native one", Object.assign(new Error("cut"), { code: "ERR_RESULT" })],
    ["nothing", undefined],
  ])("of where the text comes from is passed on: %s", async (_, thrown) => {
    const parts = async function* () {
      yield Buffer.from("{");
      throw thrown;
    };
    await readResult(parts(), options()).then(
      () => expect.unreachable(),
      (error: unknown) => expect(error).toBe(thrown),
    );
  });

  it("of where the text comes from is told when the output is written to no more", async () => {
    const wire = nativeWire();
    const finishing = wire.finish.bind(wire);
    let ended = false;
    const finish = vi.spyOn(wire, "finish").mockImplementation((id) => {
      return finishing(id).finally(() => (ended = true));
    });
    const parts = function* () {
      yield Buffer.from("{");
      throw new RangeError("cut");
    };
    await expect(readResult(parts(), options())).rejects.toThrow(RangeError);
    expect(ended).toBe(true);
    finish.mockRestore();
  });

  it("ends the text's source", async () => {
    let ended = false;
    const parts = async function* () {
      try {
        for (;;) yield Buffer.from("}".repeat(1000));
      } finally {
        ended = true;
      }
    };
    await expect(readResult(parts(), options())).rejects.toBeInstanceOf(ResultError);
    expect(ended).toBe(true);
  });
});

it("does not hold the event loop, and holds back what comes too fast", { timeout: 60_000 }, async () => {
  const length = 4_000_000;
  const row = Buffer.from(`${"-1.2345678,".repeat(length - 1)}-1`);
  const text = Buffer.concat([
    Buffer.from('{"loss_fn_outputs":[{"tensors":{"logprobs":{"data":['),
    row,
    Buffer.from("]}}}]}"),
  ]);
  const layout = {
    rowLengths: Uint32Array.of(length),
    runCounts: Uint32Array.of(1),
    runs: Uint32Array.of(0, length),
  };
  const output = new Float32Array(length);
  const late = await lateness(async () => {
    await readResult(inParts(text, 65_536), { path: LOGPROBS_IN_OUTPUT, layout, output, packed: true });
  });
  expect(output[0]).toBe(Math.fround(-1.2345678));
  expect(output.at(-1)).toBe(-1);
  expect(late).toBeLessThan(50);
});
