// Memory that is kept between steps: the first touch of new memory costs more than writing into it.
import { constants } from "node:buffer";

/**
 * Sizes are rounded up to multiples of this, so that a block fits the next use as well. Smaller blocks are not kept.
 * @unit bytes
 */
const GRAIN = 32 * 1024;
/** Memory that nobody has asked for so long is let go of. @unit milliseconds */
const IDLE_MS = 10_000;

/**
 * Memory with anything in it where Node can give it, for what is written whole: clearing it would hold the event loop.
 * @unit bytes
 */
export const newMemory = (size: number): ArrayBuffer =>
  size <= constants.MAX_LENGTH ? (Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer) : new ArrayBuffer(size);

/** Blocks of all sizes. */
export class BlockPool {
  /** Free blocks by their size; the size that was used last comes last. */
  readonly #free = new Map<number, ArrayBuffer[]>();
  readonly #most: number;
  #bytes = 0;
  #idle: NodeJS.Timeout | undefined;

  /** @param most Bytes that are kept for later. */
  constructor(most = 256 * 1024 * 1024) {
    this.#most = most;
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A block of at least `size` bytes, with anything in it. */
  take(size: number): ArrayBuffer {
    if (size < GRAIN) return newMemory(size);
    this.#idle?.refresh();
    const least = Math.ceil(size / GRAIN) * GRAIN;
    // A little larger does as well.
    for (let fitting = least; fitting <= least + least / 4; fitting += GRAIN) {
      const block = this.#free.get(fitting)?.pop();
      if (block === undefined) continue;
      this.#bytes -= fitting;
      return block;
    }
    return newMemory(least);
  }

  /** Gives blocks back, each once. Nothing may use them any more. Those of sizes not used for longest make room for them. */
  give(blocks: readonly ArrayBuffer[]): void {
    for (const block of blocks) {
      const size = block.byteLength;
      if (size < GRAIN || size > this.#most) continue;
      const same = this.#free.get(size) ?? [];
      same.push(block);
      this.#free.delete(size);
      this.#free.set(size, same);
      this.#bytes += size;
      this.#shrink();
    }
    if (this.#bytes === 0) return;
    this.#idle ??= setTimeout(() => this.#clear(), IDLE_MS).unref();
    this.#idle.refresh();
  }

  #shrink(): void {
    for (const [size, same] of this.#free) {
      while (this.#bytes > this.#most && same.shift() !== undefined) this.#bytes -= size;
      if (same.length === 0) this.#free.delete(size);
      if (this.#bytes <= this.#most) return;
    }
  }

  #clear(): void {
    this.#free.clear();
    this.#bytes = 0;
    this.#idle = undefined;
  }
}

/** Of this environment. */
export const blocks = new BlockPool();
