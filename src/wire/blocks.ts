// Memory for request bodies, kept between steps: the first touch of new memory costs more than writing into it.

/** Blocks of all sizes. */
export class BlockPool {
  readonly #free: ArrayBuffer[] = [];
  readonly #most: number;
  #bytes = 0;

  /** @param most Bytes that are kept for later. */
  constructor(most = 64 * 1024 * 1024) {
    this.#most = most;
  }

  /** Bytes that are kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A block of at least `size` bytes, with anything in it. */
  take(size: number): ArrayBuffer {
    const at = this.#free.findIndex((block) => block.byteLength >= size && block.byteLength <= 2 * size);
    if (at < 0) return Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer;
    const [block] = this.#free.splice(at, 1);
    this.#bytes -= block!.byteLength;
    return block!;
  }

  /** Gives blocks back, each once. Nothing may use them any more. The oldest make room for them. */
  give(blocks: readonly ArrayBuffer[]): void {
    for (const block of blocks) {
      if (block.byteLength > this.#most) continue;
      this.#free.push(block);
      this.#bytes += block.byteLength;
    }
    while (this.#bytes > this.#most) this.#bytes -= this.#free.shift()!.byteLength;
  }
}
