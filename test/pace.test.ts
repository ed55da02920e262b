// Long work of any number shares the turns of the event loop.
import { expect, test } from "vitest";
import { Pace, PIECE } from "../src/pace.ts";

test("what rests goes on one at a time, in its order, with a turn of the event loop for each", async () => {
  const order: string[] = [];
  let turns = 0;
  const count = () => {
    turns++;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const work = async (name: string) => {
    const pace = new Pace();
    for (let nth = 0; nth < 3; nth++) {
      await pace.rest();
      order.push(`${name}${turns}`);
    }
  };
  await Promise.all(["a", "b", "c"].map(work));
  clearImmediate(counting);
  expect(order.map(([name]) => name).join("")).toBe("abcabcabc");
  expect(new Set(order.map((entry) => entry.slice(1))).size).toBe(9);
});

test("all of it together is due to rest when the turn's share is used up", async () => {
  const [one, other] = [new Pace(), new Pace()];
  await one.rest();
  expect([one.due(PIECE - 1), other.due(PIECE)]).toEqual([false, false]);
  const until = performance.now() + 2;
  while (performance.now() < until);
  expect([one.due(1), other.due(PIECE), new Pace().due(PIECE)]).toEqual([true, true, true]);
  await other.rest();
  expect([one.due(PIECE), other.due(PIECE)]).toEqual([false, false]);
});
