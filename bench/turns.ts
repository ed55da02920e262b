// Lets contestants run in turns, never two at once.
import { setTimeout as sleep } from "node:timers/promises";

/** Milliseconds between turns, in which the threads of the one before go to sleep. */
const PAUSE = 20;

/** What the turns of each contestant gave, over all rounds. */
export async function inTurns<Contestant, Run>(
  contestants: readonly Contestant[],
  rounds: number,
  turn: (contestant: Contestant) => Promise<readonly Run[]>,
): Promise<Map<Contestant, Run[]>> {
  const runs = new Map<Contestant, Run[]>(contestants.map((contestant) => [contestant, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [contestant, all] of runs) {
      await sleep(PAUSE);
      all.push(...(await turn(contestant)));
    }
  }
  return runs;
}
