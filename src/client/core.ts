// What a client shares with its sessions, and what each session has of its own.

import type { ByteBudget } from "./budget.ts";
import type { ChunkLimits } from "./chunks.ts";
import type { Observer } from "./events.ts";
import type { SessionOrder } from "./order.ts";
import type { PayloadChannel, PayloadMode } from "./payloads.ts";
import type { Sender } from "./sender.ts";
import type { WireFormatChoice } from "./wire.ts";

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
}

export interface SessionContext {
  readonly core: Core;
  readonly id: string;
  /** Path of the session below `/v1`. */
  readonly path: string;
  readonly order: SessionOrder;
  readonly channel: PayloadChannel;
}
