// Log-probabilities over real sockets: answers in any pieces, broken off, wrong, or larger than they may be.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ClientOptions } from "../../src/client/client.ts";
import type { Session } from "../../src/client/session.ts";
import { lateness } from "../helpers.ts";
import {
  completed,
  PENDING,
  type Received,
  type Reply,
  rejection,
  SAMPLES,
  SESSION,
  scriptedSession,
  serve,
  status,
  testClient,
  wait,
} from "./server.ts";

const outputOf = (...data: unknown[][]) => ({
  loss: 3,
  metrics: { a: 1 },
  loss_fn_outputs: data.map((row) => ({ tensors: { logprobs: { data: row, dtype: "float32" } } })),
});
const ROWS = [
  [0.25, -1.5, -0.1],
  [0, -3],
];
const SCORED = completed(outputOf(...ROWS));
const OTHER = completed(outputOf([9, 8, 7], [6, 5]));
const FULL = ROWS.map((row) => Float32Array.from(row));
const PACKED = Float32Array.of(-1.5, -0.1, -3);

/** Writes a body in pieces of `size` bytes, each in a turn of its own; with `end`, cut there. */
function inPieces(body: object | string, size: number, end: "whole" | "cut" | "reset" = "whole"): Reply {
  return async (response: ServerResponse) => {
    const text = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
    const length = end === "whole" ? text.length : Math.floor(text.length * 0.8);
    response.socket!.setNoDelay(true);
    response.writeHead(200);
    for (let at = 0; at < length; at += size) {
      response.write(text.subarray(at, Math.min(length, at + size)));
      await nextTurn();
    }
    if (end !== "reset") return response.end();
    await wait(20);
    response.socket?.destroy();
  };
}

async function scoredBy(replies: readonly Reply[], options: ClientOptions = {}) {
  const { session, requests } = await scriptedSession(replies, { wireFormat: "loss_inputs", ...options });
  return { session, requests };
}

describe("an answer", () => {
  test.each([1, 3, 64, 100_000])("in pieces of %d bytes", async (size) => {
    const reply = inPieces(SCORED, size);
    const { session } = await scoredBy([reply, reply, reply]);
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
    const { logprobs, loss, metrics } = await session.forwardPacked(SAMPLES);
    expect({ logprobs, loss, metrics }).toEqual({ logprobs: PACKED, loss: 3, metrics: { a: 1 } });
    const options = { returnOutputs: true };
    const { outputs } = await session.forwardBackward(SAMPLES, { type: "cross_entropy" }, options);
    expect(outputs).toEqual(FULL.map((logprobs) => ({ logprobs })));
  });

  test("to a look at the operation, with its members in any order", async () => {
    const { id, status, output } = SCORED;
    const { loss, loss_fn_outputs, metrics } = output as ReturnType<typeof outputOf>;
    const { session } = await scoredBy([
      PENDING,
      { output, status, id },
      { id, output: { loss_fn_outputs, metrics, loss }, status },
    ]);
    expect((await session.forwardPacked(SAMPLES)).logprobs).toEqual(PACKED);
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
  });

  test("has the rows as views of one buffer", async () => {
    const { session } = await scoredBy([SCORED]);
    const [first, second] = (await session.forward(SAMPLES)).logprobs;
    expect(first!.buffer).toBe(second!.buffer);
  });

  test("that is not about log-probabilities is as it was", async () => {
    const { session } = await scoredBy([SCORED]);
    const info = await session.getOperation("forward-backward", "op-1");
    expect(info.output).toEqual(SCORED.output);
  });
});

describe("an answer that breaks off", () => {
  test.each<["cut" | "reset"]>([["cut"], ["reset"]])("and is %s is asked for again", async (end) => {
    const broken = inPieces(OTHER, 50, end);
    const { session, requests } = await scoredBy([broken, broken, PENDING, broken, SCORED], {
      maxRetries: 3,
    });
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
    expect(requests.map(({ method }) => method)).toEqual(["POST", "POST", "POST", "GET", "GET"]);
    expect(new Set(requests.slice(0, 3).map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  });

  test("says where, to the end of the retries", async () => {
    const { session } = await scoredBy(Array(2).fill(inPieces(SCORED, 50, "cut")), { maxRetries: 1 });
    const error = await rejection(session.forward(SAMPLES));
    expect(error).toMatchObject({ code: "ERR_RESPONSE", garbled: true, cause: { name: "ResultError" } });
    expect((error.attempts as object[]).length).toBe(2);
    expect(error.message).toMatch(
      /^answer: expected JSON, got \d+ bytes that do not parse: .*the text ends .* \(POST .*\); gave up after 2 attempts/,
    );
  });

  test("leaves nothing behind: what comes then without rows has none", async () => {
    const { session } = await scoredBy([inPieces(OTHER, 50, "reset"), completed({ loss: 1 })], {
      maxRetries: 1,
    });
    expect((await rejection(session.forward(SAMPLES.slice(0, 1)))).code).toBe("ERR_NO_LOGPROBS");
  });

  test.each<[string, string]>([
    ["<html>down</html>", "HTML"],
    ["", "nothing"],
    ["  \n", "3 bytes that do not parse"],
    ["oops", "4 bytes that do not parse"],
  ])("and is %j is named", async (body, name) => {
    const { session } = await scoredBy([status(200, body), status(200, body)]);
    for (const call of [session.forward(SAMPLES), session.optimStep()]) {
      const error = (await rejection(call)) as Error & { cause: { garbled: boolean; message: string } };
      const { garbled, message } = error.name === "AmbiguousStepError" ? error.cause : (error as never);
      expect(garbled).toBe(true);
      expect(message).toContain(`answer: expected JSON, got ${name}`);
    }
  });

  test("while a call is aborted ends it at once", async () => {
    const controller = new AbortController();
    const dripping: Reply = async (response: ServerResponse) => {
      response.writeHead(200).write('{"output":{"loss_fn_outputs":[{"tensors":{"logprobs":{"data":[1');
      for (; !response.destroyed; await wait(1)) response.write(",1".repeat(10));
    };
    const length = 1_000_000;
    const row = new Int32Array(length).fill(1);
    const { session, requests } = await scoredBy([dripping], { payloads: "inline", maxChunkBytes: Infinity });
    const samples = [{ tokens: row, targets: row, weights: new Float32Array(length).fill(1) }];
    const call = rejection(session.forward(samples, { signal: controller.signal }));
    await expect.poll(() => requests.length, { timeout: 10_000 }).toBe(1);
    await wait(50);
    const began = performance.now();
    controller.abort();
    expect(await call).toMatchObject({ name: "AbortError" });
    expect(performance.now() - began).toBeLessThan(100);
  });
});

describe("an answer that is too large", () => {
  const limited = { maxResponseBytes: 1000, maxRetries: 3 };

  test.each<[string, (session: Session) => Promise<unknown>]>([
    ["of log-probabilities", (session) => session.forward(SAMPLES)],
    ["of anything else", (session) => session.getOperation("sample", "op-1")],
  ])("%s is given up at once, with the option named", async (_, run) => {
    const whole = { ...SCORED, more: "x".repeat(1000 - JSON.stringify({ ...SCORED, more: "" }).length) };
    const over = { ...whole, more: `${whole.more}x` };
    const { session, requests } = await scoredBy([inPieces(over, 100), inPieces(whole, 100)], limited);
    const error = await rejection(run(session));
    expect(error).toMatchObject({
      name: "ResponseTooLargeError",
      code: "ERR_RESPONSE_TOO_LARGE",
      limit: 1000,
      garbled: false,
    });
    expect(error.message).toMatch(
      /^answer: expected at most 1000 bytes \(the option maxResponseBytes\), got more \((GET|POST) http:/,
    );
    expect(requests.length).toBe(1);
    await run(session);
  });

  test("is not read to its end", async () => {
    let written = 0;
    const endless: Reply = async (response: ServerResponse) => {
      response.writeHead(200).write("{");
      for (; !response.destroyed; await nextTurn()) {
        written += 10_000;
        response.write(" ".repeat(10_000));
      }
    };
    const { session } = await scoredBy([endless], { maxResponseBytes: 100_000 });
    expect((await rejection(session.forward(SAMPLES))).code).toBe("ERR_RESPONSE_TOO_LARGE");
    expect(written).toBeLessThan(20_000_000);
  });

  test("or too deep is refused, and not asked for again", async () => {
    const deep = `{"more":${"[".repeat(100)}${"]".repeat(100)}}`;
    const { session, requests } = await scoredBy([status(200, deep)], { maxRetries: 3 });
    const error = await rejection(session.forward(SAMPLES));
    expect(error).toMatchObject({ code: "ERR_RESPONSE", garbled: false });
    expect(error.message).toMatch(/^answer: expected at most 64 levels, got more \(POST /);
    expect(requests.length).toBe(1);
  });

  test("a limit out of range is refused", async () => {
    for (const maxResponseBytes of [0, 1.5, Number.NaN, "1" as never]) {
      await expect(scoredBy([], { maxResponseBytes })).rejects.toThrow(/^maxResponseBytes: expected/);
    }
  });
});

describe("a wrong row", () => {
  test("of a batch in parts is named by its sample in the batch, and its place in the answer", async () => {
    const { session } = await scoredBy([completed(outputOf(ROWS[0]!)), completed(outputOf([0, null]))], {
      maxChunkSamples: 1,
    });
    const error = await rejection(session.forwardPacked(SAMPLES));
    expect(error).toMatchObject({ name: "ResponseError", code: "ERR_RESPONSE", sample: 1, position: 1 });
    expect(error.message).toMatch(
      /^output\.loss_fn_outputs\[0\]\.tensors\.logprobs\.data, sample 1, position 1: expected a finite number within float32's range, got null \(POST http.*forward-backward\)$/,
    );
  });
});

describe("a result that is downloaded", () => {
  async function stored(gets: readonly Reply[], options: ClientOptions = {}, inline: object = {}) {
    const left = [...gets];
    const storage = await serve(() => left.shift() ?? status(404, ""));
    const server = await serve(({ path }: Received) => {
      if (path.endsWith("/download-url")) return { download_url: `${storage.url}/bucket/down?X-Signature=s` };
      if (!path.includes("/operations/")) return SESSION;
      return completed({ loss: 3, metrics: { a: 1 }, ...inline, payload_id: "p-1" });
    });
    const client = testClient(server, { wireFormat: "loss_inputs", ...options });
    return { session: await client.sessions.attach("s-1"), storage };
  }
  const { loss_fn_outputs } = outputOf(...ROWS);

  test.each([1, 100_000])("in pieces of %d bytes", async (size) => {
    const { session } = await stored(Array(2).fill(inPieces({ loss_fn_outputs, loss: 4 }, size)));
    expect(await session.forwardPacked(SAMPLES)).toMatchObject({
      logprobs: PACKED,
      loss: 4,
      metrics: { a: 1 },
    });
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
  });

  test("is asked for again where it breaks off or is no JSON", async () => {
    const other = { loss_fn_outputs: outputOf([9, 8, 7], [6, 5]).loss_fn_outputs };
    const gets = [
      inPieces(other, 50, "cut"),
      inPieces(other, 50, "reset"),
      status(200, "<html>"),
      { loss_fn_outputs },
    ];
    const { session, storage } = await stored(gets, { maxRetries: 3 });
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
    expect(storage.requests.length).toBe(4);
  });

  test("may bring the rest of a result whose rows came with the operation", async () => {
    const { session } = await stored([{ metrics: { b: 2 } }], {}, { loss_fn_outputs });
    expect(await session.forward(SAMPLES)).toMatchObject({ logprobs: FULL, metrics: { b: 2 } });
  });

  test("names request, sample and position of what is wrong, without the permission", async () => {
    const { session } = await stored([outputOf([0, -1, 1e39], [0, -3])]);
    const error = await rejection(session.forward(SAMPLES));
    expect(error).toMatchObject({ code: "ERR_RESPONSE", sample: 0, position: 2 });
    expect(error.message).toMatch(
      /^output\.loss_fn_outputs\[0\]\.tensors\.logprobs\.data, sample 0, position 2: .* got 1e\+39 \(payload p-1: GET http.*\/bucket\/down\)$/,
    );
  });

  test("obeys the limit", async () => {
    const { session } = await stored([{ loss_fn_outputs, more: "x".repeat(1000) }], {
      maxResponseBytes: 1000,
    });
    const error = await rejection(session.forward(SAMPLES));
    expect(error).toMatchObject({ code: "ERR_RESPONSE_TOO_LARGE", limit: 1000 });
    expect(error.message).toContain("payload p-1");
  });

  test("may take any time, but not stand still", async () => {
    const slowly: Reply = async (response: ServerResponse) => {
      const text = JSON.stringify({ loss_fn_outputs });
      response.writeHead(200);
      for (let at = 0; at < text.length; at += 20, await wait(100)) response.write(text.slice(at, at + 20));
      response.end();
    };
    const still: Reply = (response: ServerResponse) => {
      response.writeHead(200).write('{"loss_fn_outputs":[');
    };
    const { session } = await stored([slowly, still], { requestTimeoutMs: 300 });
    expect((await session.forward(SAMPLES)).logprobs).toEqual(FULL);
    expect((await rejection(session.forward(SAMPLES))).code).toBe("ERR_CONNECTION");
  });
});

/** A server that answers scoring with one row of `length` times `number`, whatever it is asked. */
async function serveNumbers(number: string, length: number) {
  const block = 1000;
  const part = `,${number}`.repeat(block);
  function* body() {
    yield '{"id":"op-1","status":"COMPLETED","output":{"loss":1,"loss_fn_outputs":[{"tensors":{"logprobs":{"data":[';
    yield part.slice(1);
    for (let done = block; done < length; done += block) yield part;
    yield "]}}}]}}";
  }
  const server = createServer((request, response) => {
    request.resume();
    if (request.method === "GET") return response.end(JSON.stringify(SESSION));
    request.on("end", () => Readable.from(body()).pipe(response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const client = testClient({ url: `http://127.0.0.1:${port}` } as never, {
    payloads: "inline",
    maxChunkBytes: Infinity,
    wireFormat: "loss_inputs",
  });
  const tokens = new Int32Array(length).fill(1);
  const samples = [{ tokens, targets: tokens, weights: new Float32Array(length).fill(1) }];
  return { session: await client.sessions.attach("s-1"), samples };
}

test("four million log-probabilities do not hold the event loop", { timeout: 60_000 }, async () => {
  const length = 4_000_000;
  const { session, samples } = await serveNumbers("-1.234567", length);
  // The addon is loaded once in a process.
  let { logprobs } = await session.forwardPacked(samples);
  expect(logprobs.length).toBe(length);
  expect(logprobs.every((value) => value === Math.fround(-1.234567))).toBe(true);
  // The best of some, since other processes hold this one as well.
  let late = Infinity;
  for (let nth = 0; nth < 5 && late >= 50; nth++) {
    const once = await lateness(async () => {
      ({ logprobs } = await session.forwardPacked(samples));
    });
    late = Math.min(late, once);
  }
  expect(late).toBeLessThan(50);
});

test("the text of an answer is never in memory", { timeout: 60_000 }, async () => {
  const length = 200_000;
  const number = `-0.${"1".repeat(497)}`;
  const { session, samples } = await serveNumbers(number, length);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const used = () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const before = used();
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, used());
  }, 10);
  const { logprobs } = await session.forwardPacked(samples);
  clearInterval(timer);
  expect(logprobs.at(-1)).toBe(Math.fround(Number(number)));
  // The text has 100 MB.
  expect(most - before).toBeLessThan(20e6);
});
