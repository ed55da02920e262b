// The JSON of a successful answer as it arrives: parsed, or read natively where it brings log-probabilities.

import { constants } from "node:buffer";
import { ResultError } from "../wire/errors.ts";
import { LOGPROBS_IN_OPERATION } from "../wire/result.ts";
import { ResponseError, ResponseTooLargeError } from "./errors.ts";
import type { LogprobsPart } from "./logprobs.ts";
import type { Reply } from "./transport.ts";

export class Arriving {
  readonly #reply: Reply;
  readonly #maxBytes: number;
  /** The request, as `METHOD url`. */
  readonly #request: string;
  #bytes = 0;
  #html = false;

  constructor(reply: Reply, maxBytes: number, request: string) {
    this.#reply = reply;
    this.#maxBytes = maxBytes;
    this.#request = request;
  }

  /** @throws {ResponseError} if it is no JSON. */
  async parsed(): Promise<unknown> {
    const chunks: Buffer[] = [];
    for await (const chunk of this.#chunks(constants.MAX_STRING_LENGTH)) chunks.push(chunk);
    try {
      return JSON.parse(Buffer.concat(chunks, this.#bytes).toString());
    } catch (cause) {
      throw this.#garbled(cause);
    }
  }

  /**
   * The rows' numbers go to `logprobs`, everything else is returned.
   *
   * @throws {ResponseError} if it is no JSON, or has rows that are wrong.
   */
  async readInto(logprobs: LogprobsPart, path: readonly string[]): Promise<unknown> {
    try {
      return await logprobs.read(this.#chunks(), path);
    } catch (error) {
      throw error instanceof ResultError ? this.#refused(error, logprobs.from) : error;
    }
  }

  async *#chunks(longest = Infinity): AsyncGenerator<Buffer> {
    const limit = Math.min(this.#maxBytes, longest);
    for await (const chunk of this.#reply.body as AsyncIterable<Buffer>) {
      if (this.#bytes === 0) this.#html = looksLikeHtml(chunk);
      this.#bytes += chunk.length;
      if (this.#bytes > limit) {
        const why = limit === longest ? "the longest string" : "the option maxResponseBytes";
        throw new ResponseTooLargeError(limit, why, this.#request);
      }
      // Its memory is the socket's own and is not used again.
      yield chunk;
    }
  }

  #garbled(cause: unknown, details = "", at = {}): ResponseError {
    const got =
      this.#bytes === 0
        ? "nothing"
        : this.#html
          ? "HTML"
          : `${this.#bytes} bytes that do not parse${details}`;
    const message = `answer: expected JSON, got ${got} (${this.#request})`;
    return new ResponseError(message, { cause, garbled: true, ...at });
  }

  #refused(cause: ResultError, from: number): ResponseError {
    const { problem, position } = cause;
    if (cause.sample === undefined) {
      if (cause.garbled) return this.#garbled(cause, `: ${problem}`);
      return new ResponseError(`answer: ${problem} (${this.#request})`, { cause });
    }
    const sample = from + cause.sample;
    const row = LOGPROBS_IN_OPERATION.join(".").replace(".*", `[${cause.sample}]`);
    const place = `${row}, sample ${sample}${position === undefined ? "" : `, position ${position}`}`;
    if (cause.garbled) return this.#garbled(cause, `: ${place}: ${problem}`, { sample, position });
    return new ResponseError(`${place}: ${problem} (${this.#request})`, { cause, sample, position });
  }
}

export function looksLikeHtml(body: Buffer): boolean {
  return body.subarray(0, 64).toString().trimStart().startsWith("<");
}
