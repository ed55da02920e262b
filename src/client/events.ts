// What the client tells of its work: diagnostics channels, spans of a tracer, lines of a logger. Never keys or bodies.

import { channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";
import { InputError, type TokengradError } from "../errors.ts";
import type { Attempt } from "./errors.ts";

/** One HTTP request, as the events `tracing:tokengrad.request:*` carry it; fields fill up as it goes on. */
export interface RequestEvent {
  readonly method: string;
  /** Without the query of a storage address. */
  readonly url: string;
  /** 0 for the first attempt. */
  readonly attempt: number;
  /** Size of the request's body. @unit bytes */
  readonly bytesSent: number;
  /** HTTP status of the answer. */
  status?: number;
  /** `x-request-id` of the answer, where given. */
  requestId?: string | undefined;
}

/** One operation, as the events `tracing:tokengrad.operation:*` carry it. */
export interface OperationEvent {
  readonly kind: string;
  readonly sessionId: string;
  /** Samples or prompts. */
  readonly items: number;
  /** Ids that the server gave; several where a batch went out in parts. */
  readonly operationIds: string[];
}

/** A failed request that is sent again, as the event `tokengrad.retry` carries it. */
export interface RetryEvent extends Attempt {
  readonly call: string;
}

/** Takes the client's lines, such as `console`. Fields hold sizes, times, ids and statuses. */
export interface Logger {
  debug(message: string, fields: object): void;
  info(message: string, fields: object): void;
  warn(message: string, fields: object): void;
}

/** The part of a span of `@opentelemetry/api` that is used. */
interface Span {
  setAttribute(name: string, value: string | number): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  recordException(error: { name: string; message: string }): void;
  end(): void;
}

/** A tracer of `@opentelemetry/api`, as `trace.getTracer("…")` gives it. */
export interface Tracer {
  startActiveSpan<T>(
    name: string,
    options: { kind?: number; attributes?: Record<string, string | number> },
    work: (span: Span) => T,
  ): T;
}

/** Of OpenTelemetry's enums. */
const CLIENT_KIND = 2;
const ERROR_STATUS = 2;

const requests = tracingChannel<RequestEvent, RequestEvent>("tokengrad.request");
const operations = tracingChannel<OperationEvent, OperationEvent>("tokengrad.operation");
const retries = channel("tokengrad.retry");

export class Observer {
  readonly #logger: Logger | undefined;
  readonly #tracer: Tracer | undefined;

  constructor(logger: Logger | undefined, tracer: Tracer | undefined) {
    this.#logger = logger;
    this.#tracer = tracer;
  }

  request<T>(event: RequestEvent, work: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const attributes = () => ({
      "http.request.method": event.method,
      "url.full": event.url,
      "http.request.resend_count": event.attempt,
      "http.request.body.size": event.bytesSent,
      ...(event.status === undefined ? {} : { "http.response.status_code": event.status }),
    });
    return this.#observe(requests, event, event.method, attributes, async () => {
      try {
        return await work();
      } finally {
        const ms = Math.round(performance.now() - began);
        this.#logger?.debug(`${event.method} ${event.url} ${event.status ?? "no answer"} ${ms} ms`, {
          ...event,
          ms,
        });
      }
    });
  }

  operation<T>(event: OperationEvent, work: () => Promise<T>): Promise<T> {
    const attributes = () => ({
      "tokengrad.session": event.sessionId,
      "tokengrad.items": event.items,
      "tokengrad.operations": event.operationIds.join(","),
    });
    return this.#observe(operations, event, event.kind, attributes, work);
  }

  retry(event: RetryEvent): void {
    if (retries.hasSubscribers) retries.publish(event);
    const again = event.pauseMs === undefined ? "gave up" : `again in ${Math.round(event.pauseMs)} ms`;
    this.#logger?.warn(`${event.call}: ${event.code}: ${event.message}; ${again}`, event);
  }

  /** Something that goes on for long has come on. */
  progress(message: string, fields: object): void {
    this.#logger?.info(message, fields);
  }

  async #observe<E extends object, T>(
    channels: TracingChannel<E, E>,
    event: E,
    name: string,
    attributes: () => Record<string, string | number>,
    work: () => Promise<T>,
  ): Promise<T> {
    let result: { readonly value: T } | undefined;
    // The channel would show its subscribers what the traced function gives: an answer's body.
    await channels.tracePromise(async () => {
      const value = await (this.#tracer === undefined ? work() : this.#span(name, attributes, work));
      result = { value };
    }, event);
    return result!.value;
  }

  #span<T>(name: string, attributes: () => Record<string, string | number>, work: () => Promise<T>) {
    const options = { kind: CLIENT_KIND, attributes: attributes() };
    return this.#tracer!.startActiveSpan(`tokengrad ${name}`, options, async (span) => {
      try {
        return await work();
      } catch (error) {
        const { code, message, name } = error as TokengradError;
        // What is wrong with an argument names a value of a body.
        const shown = error instanceof InputError ? `${code}: ${error.path}` : message;
        span.recordException({ name, message: shown });
        span.setAttribute("error.type", code ?? name);
        span.setStatus({ code: ERROR_STATUS, message: shown });
        throw error;
      } finally {
        for (const [key, value] of Object.entries(attributes())) span.setAttribute(key, value);
        span.end();
      }
    });
  }
}
