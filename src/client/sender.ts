// Sends requests until they are answered: attempts, time limits of each, pauses between them.

import { TokengradError } from "../errors.ts";
import type { Answer } from "./answer.ts";
import { ApiError } from "./api-errors.ts";
import type { Body } from "./body.ts";
import { type Call, REMEMBERED_ATTEMPTS } from "./call.ts";
import { type Attempt, ClientError, ConnectionError } from "./errors.ts";
import type { Observer } from "./events.ts";
import type { LogprobsPart } from "./logprobs.ts";
import { isSuccess, readAnswer, readError, readStart } from "./reply.ts";
import { isTransient, mayHaveArrived, pauseAfter, type RetryOptions } from "./retry.ts";
import { type Outgoing, type Reply, shown, shownURL, type Transport } from "./transport.ts";

/** A request to the API. */
export interface Request {
  readonly method: "GET" | "POST" | "PATCH";
  /** Path below `/v1`, with its query. */
  readonly path: string;
  readonly body?: Body | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Where the log-probabilities go that the answer may bring. */
  readonly logprobs?: LogprobsPart | undefined;
  /** True where the server would do it twice if it came twice: then it is only repeated if it certainly did not arrive. */
  readonly once?: boolean | undefined;
}

export interface SenderOptions extends RetryOptions {
  /** Time of one attempt; each that runs out doubles it for the next. @unit milliseconds */
  readonly requestTimeoutMs: number;
  /** Size of an answer or of a result's download. @unit bytes */
  readonly maxResponseBytes: number;
}

/** By the fourth failure a request may take 16 times as long. */
const MOST_DOUBLINGS = 4;
/** Below this rate of upload an attempt is given up. @unit bytes per millisecond */
const SLOWEST_UPLOAD = 250;

export class Sender {
  readonly transport: Transport;
  readonly #observer: Observer;
  readonly #options: SenderOptions;

  constructor(transport: Transport, observer: Observer, options: SenderOptions) {
    this.transport = transport;
    this.#observer = observer;
    this.#options = options;
  }

  /** The JSON of the answer; a failed request is repeated where that is safe and may help. */
  send(request: Request, call: Call): Promise<Answer> {
    const outgoing = this.#toApi(request);
    return this.#persist(outgoing, call, request.once ?? false, (reply) =>
      this.#answer(reply, outgoing, request.logprobs),
    );
  }

  /** As `send`, once. `failures` counts those in a row before it, and lengthens the time that it may take. */
  attempt(request: Request, call: Call, failures: number): Promise<Answer> {
    const outgoing = this.#toApi(request);
    return this.#once(outgoing, call, failures, (reply) => this.#answer(reply, outgoing, request.logprobs));
  }

  /** Sends a body to a storage address, without the key. */
  async upload(url: string, body: Body, call: Call): Promise<void> {
    const outgoing = { method: "PUT", url, toApi: false, body } as const;
    await this.#persist(outgoing, call, false, (reply) => this.#stored(reply, outgoing, readStart));
  }

  /** The JSON that a storage address holds, under a name for messages. However long it takes, it must not stand still. */
  download(url: string, name: string, call: Call, logprobs: LogprobsPart | undefined): Promise<Answer> {
    const outgoing = this.#fromStorage(url);
    const where = `${name}: ${shown(outgoing)}`;
    return this.#persist(outgoing, call, false, (reply) => this.#answer(reply, outgoing, logprobs, where));
  }

  /** As `download`, once, from a byte on; `read` takes the answer. */
  downloadFrom<T>(url: string, byte: number, call: Call, read: (reply: Reply) => Promise<T>): Promise<T> {
    const outgoing = { ...this.#fromStorage(url), ...(byte > 0 && { headers: { range: `bytes=${byte}-` } }) };
    return this.#once(outgoing, call, 0, (reply) => this.#stored(reply, outgoing, read));
  }

  /** Whether the request is to be sent again after so many failures in a row. */
  repeats(error: unknown, failures: number): boolean {
    return failures <= this.#options.maxRetries && isTransient(error);
  }

  /** Notes a failure and gives the pause after it. @unit milliseconds */
  failed(error: unknown, request: string, call: Call, failures: number): number {
    const pauseMs = pauseAfter(error, failures, this.#options);
    this.#note(error, request, call, pauseMs);
    return pauseMs;
  }

  #fromStorage(url: string) {
    return { method: "GET", url, toApi: false, idleMs: this.#options.requestTimeoutMs } as const;
  }

  #answer(
    reply: Reply,
    request: Outgoing,
    logprobs: LogprobsPart | undefined,
    where?: string,
  ): Promise<Answer> {
    const maxBytes = this.#options.maxResponseBytes;
    return readAnswer(reply, request, this.transport, { maxBytes, logprobs, where });
  }

  async #stored<T>(reply: Reply, request: Outgoing, read: (reply: Reply) => Promise<T>): Promise<T> {
    if (!isSuccess(reply)) throw await readError(reply, request, this.transport);
    return read(reply);
  }

  #toApi({ method, path, body, idempotencyKey }: Request): Outgoing {
    const headers: Record<string, string> =
      idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
    return { method, url: `${this.transport.baseURL}${path}`, toApi: true, body, headers };
  }

  async #persist<T>(
    outgoing: Outgoing,
    call: Call,
    onlyOnce: boolean,
    read: (reply: Reply) => Promise<T>,
  ): Promise<T> {
    const made: Attempt[] = [];
    for (let failures = 1; ; failures++) {
      try {
        return await this.#once(outgoing, call, onlyOnce ? Infinity : failures - 1, read);
      } catch (error) {
        call.check();
        const repeat = this.repeats(error, failures) && !(onlyOnce && mayHaveArrived(error));
        const pauseMs = repeat ? pauseAfter(error, failures, this.#options) : undefined;
        // A pause beyond the call's end would only hide what went wrong.
        const again = pauseMs !== undefined && pauseMs < call.remainingMs;
        if (again || failures > 1)
          made.push(this.#note(error, shown(outgoing), call, again ? pauseMs : undefined));
        if (!again) throw gaveUp(error, call, made);
        await call.pause(pauseMs);
      }
    }
  }

  #once<T>(outgoing: Outgoing, call: Call, failures: number, read: (reply: Reply) => Promise<T>): Promise<T> {
    const bytes = outgoing.body?.bytes ?? 0;
    const limitMs = outgoing.idleMs === undefined ? this.#limitMs(failures, bytes) : Infinity;
    const { signal, end } = call.limited(limitMs);
    const event = {
      method: outgoing.method,
      url: shownURL(outgoing.url, outgoing.toApi),
      attempt: Number.isFinite(failures) ? failures : 0,
      bytesSent: bytes,
    };
    return this.#observer.request(event, async () => {
      try {
        return await this.transport.exchange(outgoing, signal, (reply) => {
          const requestId = reply.headers["x-request-id"];
          Object.assign(event, { status: reply.statusCode, requestId });
          return read(reply);
        });
      } catch (error) {
        if (!signal.aborted || call.signal.aborted || !(error instanceof ConnectionError)) throw error;
        throw new ConnectionError(`no answer within ${Math.round(limitMs)} ms (${shown(outgoing)})`, error);
      } finally {
        end();
      }
    });
  }

  /** An answer that took too long for one attempt may be in time for the next. @unit milliseconds */
  #limitMs(failures: number, bytes: number): number {
    if (failures === Infinity) return Infinity;
    return this.#options.requestTimeoutMs * 2 ** Math.min(failures, MOST_DOUBLINGS) + bytes / SLOWEST_UPLOAD;
  }

  #note(error: unknown, request: string, call: Call, pauseMs: number | undefined): Attempt {
    const attempt: Attempt = {
      request,
      atMs: Math.round(call.elapsedMs),
      status: error instanceof ApiError ? error.status : undefined,
      mayHaveArrived: mayHaveArrived(error),
      code: error instanceof TokengradError ? error.code : "ERR_UNKNOWN",
      message: (error as Error).message,
      pauseMs,
    };
    call.failed(attempt, error);
    this.#observer.retry({ ...attempt, call: call.name });
    return attempt;
  }
}

/** The last error, with the attempts before it. */
function gaveUp(error: unknown, call: Call, made: readonly Attempt[]): unknown {
  if (error instanceof ClientError && made.length > 1) {
    error.attempts = made.slice(-REMEMBERED_ATTEMPTS);
    error.message += `; gave up after ${made.length} attempts in ${(call.elapsedMs / 1000).toFixed(1)} s`;
  }
  return error;
}
