// Failures on demand, over real sockets: for tests of clients.

import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** What goes wrong with one request. */
export type Fault =
  /** It is answered late. @unit milliseconds */
  | { readonly kind: "latency"; readonly ms: number }
  /** It is not done, and answered with this. `body` is sent as it is; HTML by default. */
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>> | undefined;
      readonly body?: string | undefined;
      /** Requests, this one included, that are answered so. By default 1. */
      readonly burst?: number | undefined;
    }
  /** It is not done; the connection is cut. */
  | { readonly kind: "reset" }
  /** It is done; the connection is cut instead of an answer. */
  | { readonly kind: "resetAfterCommit" }
  /** It is done and never answered. */
  | { readonly kind: "drop" }
  /** It is done; the second half of the answer is missing, under a right length. */
  | { readonly kind: "truncate" }
  /** It is done; the answer comes bit by bit. @unit milliseconds */
  | { readonly kind: "slowBody"; readonly ms: number };

/** A request as faults see it. */
export interface FaultRequest {
  readonly method: string;
  /** Without `/v1` and query. */
  readonly path: string;
  /** Requests before it. */
  readonly nth: number;
}

/** Chooses what goes wrong with a request; undefined for nothing. */
export type FaultPlan = (request: FaultRequest) => Fault | undefined;

/** What happens in some share of the requests when nobody says what: everything that a client must survive. */
export const COMMON_FAULTS: readonly Fault[] = [
  { kind: "latency", ms: 50 },
  { kind: "status", status: 429, headers: { "retry-after-ms": "20" } },
  { kind: "status", status: 429, headers: { "retry-after": "0.02" } },
  { kind: "status", status: 500 },
  { kind: "status", status: 502, burst: 3 },
  { kind: "status", status: 503 },
  { kind: "reset" },
  { kind: "resetAfterCommit" },
  { kind: "drop" },
  { kind: "truncate" },
  { kind: "slowBody", ms: 50 },
];

/** Lets the given share of requests, from 0 to 1, go wrong, in an order that the seed decides. */
export function randomFaults(rate: number, seed = 0, faults = COMMON_FAULTS): FaultPlan {
  let state = seed >>> 0;
  // Mulberry32: small, and the same everywhere.
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => (random() < rate ? faults[Math.floor(random() * faults.length)] : undefined);
}

const PIECES = 10;

/** Hooks the plan into the server, behind its check of the key. */
export function injectFaults(server: FastifyInstance, plan: FaultPlan): void {
  const chosen = new WeakMap<FastifyRequest, Fault>();
  let nth = 0;
  let burst: { readonly fault: Fault; left: number } | undefined;
  const next = (request: FaultRequest): Fault | undefined => {
    if (burst !== undefined && burst.left-- > 0) return burst.fault;
    const fault = plan(request);
    burst = fault?.kind === "status" ? { fault, left: (fault.burst ?? 1) - 1 } : undefined;
    return fault;
  };

  server.addHook("preHandler", async (request, reply) => {
    const path = request.url.replace(/\?.*/s, "");
    const fault = next({ method: request.method, path, nth: nth++ });
    if (fault === undefined) return;
    chosen.set(request, fault);
    if (fault.kind === "latency") await sleep(fault.ms);
    if (fault.kind === "reset") {
      reply.hijack();
      cut(reply);
    }
    if (fault.kind === "status") {
      const { status, headers = {}, body = `<html><h1>${status}</h1></html>` } = fault;
      return reply.status(status).type("text/html").headers(headers).send(body);
    }
  });

  server.addHook("onSend", async (request, reply, payload) => {
    switch (chosen.get(request)?.kind) {
      case "resetAfterCommit":
        cut(reply);
        return payload;
      case "drop":
        // Nobody waits for the hook's end: the connection is closed by the caller or with the server.
        return new Promise<never>(() => {});
      case "truncate":
        return typeof payload === "string" ? shortened(reply, payload) : payload;
      case "slowBody":
        return typeof payload === "string" ? dripping(payload, slowness(chosen.get(request))) : payload;
      default:
        return payload;
    }
  });
}

function cut(reply: FastifyReply): void {
  reply.raw.socket?.destroy();
}

function shortened(reply: FastifyReply, payload: string): string {
  const half = payload.slice(0, payload.length / 2);
  reply.header("content-length", Buffer.byteLength(half));
  return half;
}

const slowness = (fault: Fault | undefined) => (fault?.kind === "slowBody" ? fault.ms : 0);

function dripping(payload: string, ms: number): Readable {
  const piece = Math.ceil(payload.length / PIECES);
  async function* pieces() {
    for (let start = 0; start < payload.length; start += piece) {
      await sleep(ms / PIECES);
      yield payload.slice(start, start + piece);
    }
  }
  return Readable.from(pieces());
}
