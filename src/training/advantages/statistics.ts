// Means and spreads in which equal numbers have no spread at all, not even that of rounding.

/**
 * Mean, weighted if weights are given that do not add up to 0; 0 of nothing. The mean of equal numbers is that number to the
 * last bit.
 */
export function mean(values: readonly number[], weights?: readonly number[]): number {
  const [first = 0] = values;
  let sum = 0;
  let total = 0;
  for (const [i, value] of values.entries()) {
    const weight = weights?.[i] ?? 1;
    sum += weight * (value - first);
    total += weight;
  }
  if (total === 0) return weights === undefined ? 0 : mean(values);
  return first + sum / total;
}

/** Variance around the mean, by `n - correction`; 0 where that is not above 0. */
export function variance(values: readonly number[], correction: 0 | 1): number {
  const center = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - center) ** 2, 0);
  return squares === 0 ? 0 : squares / (values.length - correction);
}

/** Quotient; 0 where the dividend is 0, whatever the divisor. */
export const quotient = (dividend: number, divisor: number): number =>
  dividend === 0 ? 0 : dividend / divisor;
