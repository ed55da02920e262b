// Memory for request bodies, kept between steps: the first touch of new memory costs more than writing into it.

/**
 * Sizes are rounded up to multiples of this, so that a block fits the next text as well. Smaller blocks are not kept.
 * @unit bytes
 */
const GRAIN = 32 * 1024;
/** Memory that nobody has asked for so long is let go of. @unit milliseconds */
const IDLE_MS = 10_000;

const newBlock = (size: number) => Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer;

/** Blocks of all sizes. */
export class BlockPool {
  readonly #free: ArrayBuffer[] = [];
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
    if (size < GRAIN) return newBlock(size);
    this.#idle?.refresh();
    const at = this.#free.findIndex((block) => block.byteLength >= size && block.byteLength <= 2 * size);
    if (at < 0) return newBlock(Math.ceil(size / GRAIN) * GRAIN);
    const [block] = this.#free.splice(at, 1);
    this.#bytes -= block!.byteLength;
    return block!;
  }

  /** Gives blocks back, each once. Nothing may use them any more. The oldest make room for them. */
  give(blocks: readonly ArrayBuffer[]): void {
    for (const block of blocks) {
      if (block.byteLength < GRAIN || block.byteLength > this.#most) continue;
      this.#free.push(block);
      this.#bytes += block.byteLength;
    }
    while (this.#bytes > this.#most) this.#bytes -= this.#free.shift()!.byteLength;
    if (this.#bytes === 0) return;
    this.#idle ??= setTimeout(() => this.#clear(), IDLE_MS).unref();
    this.#idle.refresh();
  }

  #clear(): void {
    this.#free.length = 0;
    this.#bytes = 0;
    this.#idle = undefined;
  }
}
