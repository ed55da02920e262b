// How libtorch's OpenMP threads wait for each other. To be settled before an addon, and libtorch with it, is loaded.

/**
 * Turns that a thread of libgomp spins for the others before it sleeps. Left to itself it spins for milliseconds, which
 * makes every op some ten times slower as soon as anything else wants a core; not to spin at all costs about a third
 * where nothing does. These turns take some ten microseconds.
 */
const SPIN_COUNT = "10000";

/** Sets `GOMP_SPINCOUNT`, unless the environment already says how to wait. */
export function limitSpinning(): void {
  if (process.env.OMP_WAIT_POLICY === undefined) process.env.GOMP_SPINCOUNT ??= SPIN_COUNT;
}
