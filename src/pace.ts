// Keeps long work on the event loop from holding it.

/** Milliseconds of a turn of the event loop that long work may take, all of it together. */
const SLICE_MS = 1;

/** Elements to handle between two looks at the clock. Longer work is cut into pieces of this size. */
export const PIECE = 16_384;

/** Work that rests. Each goes on in a turn of its own, in the order in which they came to rest. */
const resting: (() => void)[] = [];
/** When long work was begun in this turn of the event loop, if any was. */
let began: number | undefined;

function beginTurn(): number {
  if (began !== undefined) return began;
  setImmediate(endTurn);
  began = performance.now();
  return began;
}

function endTurn(): void {
  began = undefined;
  const goOn = resting.shift();
  if (goOn === undefined) return;
  beginTurn();
  goOn();
}

/** After each piece of long work: `if (pace.due(elements)) await pace.rest();`. */
export class Pace {
  #done = 0;

  constructor() {
    beginTurn();
  }

  /** Whether it is time to rest, now that so many more elements are done. */
  due(elements: number): boolean {
    this.#done += elements;
    if (this.#done < PIECE) return false;
    this.#done = 0;
    return performance.now() - beginTurn() > SLICE_MS;
  }

  rest(): Promise<void> {
    beginTurn();
    return new Promise((resolve) => {
      resting.push(resolve);
    });
  }
}
