// How times grow with the number of tokens.
import type { Goal } from "./goals.ts";
import type { Summary } from "./statistics.ts";
import { count } from "./table.ts";

/** Times of one size; sizes double from one to the next. */
export interface Sized {
  readonly tokens: number;
  readonly time: Summary;
}

/** How many times as long each size takes as a quarter of it: of the sizes whose quarter was measured. */
export const growth = (sizes: readonly Sized[]): { readonly tokens: number; readonly ratio: number }[] =>
  sizes.slice(2).map(({ tokens, time }, i) => ({ tokens, ratio: time.median / sizes[i]!.time.median }));

/** That work which grows with the tokens grows with nothing else. */
export const growthGoal = (what: string, sizes: readonly Sized[]): Goal => ({
  what,
  bound: 4.2,
  more: false,
  reached: growth(sizes).map(({ tokens, ratio }) => ({
    where: `${count(tokens)} tokens`,
    value: ratio,
  })),
});
