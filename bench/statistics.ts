// What is told of a list of times.

/** Milliseconds. */
export interface Summary {
  readonly median: number;
  /** A tenth of the runs was faster. */
  readonly p10: number;
  /** A tenth of the runs was slower. */
  readonly p90: number;
}

export function summarize(times: readonly number[]): Summary {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))]!;
  return { median: at(0.5), p10: at(0.1), p90: at(0.9) };
}

/** Awaits some work; what it gave, and the milliseconds that it took. */
export async function timed<T>(work: () => T | Promise<T>): Promise<readonly [T, number]> {
  const start = performance.now();
  const result = await work();
  return [result, performance.now() - start];
}
