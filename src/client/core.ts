// What a client shares with its sessions, and what each session has of its own.

import type { ByteBudget } from "./budget.ts";
import type { ChunkLimits } from "./chunks.ts";
import type { Observer } from "./events.ts";
import type { WireFormatChoice } from "./format-choice.ts";
import { SessionOrder } from "./order.ts";
import { PayloadChannel, type PayloadMode } from "./payloads.ts";
import type { Sender } from "./sender.ts";
import { sessionPath } from "./session-info.ts";

export interface Core {
  readonly sender: Sender;
  readonly observer: Observer;
  readonly wireFormat: WireFormatChoice;
  /** Default for `timeoutMs` of a call. @unit milliseconds */
  readonly timeoutMs: number;
  /** The longest pause between two looks at an operation. @unit milliseconds */
  readonly pollIntervalMs: number;
  readonly payloads: PayloadMode;
  readonly chunks: ChunkLimits;
  readonly budget: ByteBudget;
  /** By the id of the session. */
  readonly sessions: Map<string, SessionContext>;
}

/** One for each session of a client, however often it is attached: it has one order. */
export interface SessionContext {
  readonly core: Core;
  readonly id: string;
  /** Path of the session below `/v1`. */
  readonly path: string;
  readonly order: SessionOrder;
  readonly channel: PayloadChannel;
}

export function contextOf(core: Core, id: string): SessionContext {
  const known = core.sessions.get(id);
  if (known !== undefined) return known;
  const path = sessionPath(id);
  const context = {
    core,
    id,
    path,
    order: new SessionOrder(),
    channel: new PayloadChannel(core.sender, path),
  };
  core.sessions.set(id, context);
  return context;
}
