// Pages of a list: filters, cursor and limit from the query.
import { type Fields, fields, text } from "./fields.ts";
import { invalid } from "./problem.ts";

const DEFAULT_LIMIT = 20;

interface Item {
  readonly id: string;
  body(): object;
}

/** Whether an item is wanted. */
type Keep<T> = (item: T) => boolean;

/** The items that a query asks for, a page of them. `filter` reads the query and says which are wanted. */
export function page<T extends Item>(
  items: readonly T[],
  query: unknown,
  filter: (asked: Fields) => Keep<T>,
): object {
  const asked = fields(query, "");
  const wanted = items.filter(filter(asked));
  const limit = asked.optional("limit", pageSize) ?? DEFAULT_LIMIT;
  const after = asked.optional("after", text(256));
  const begin = after ? wanted.findIndex(({ id }) => id === after) + 1 : 0;
  if (after && begin === 0) throw invalid("after", "expected the next_cursor of an earlier page");
  const data = wanted.slice(begin, begin + limit);
  const more = begin + limit < wanted.length;
  return {
    data: data.map((item) => item.body()),
    meta: { has_more: more, limit, next_cursor: more ? data.at(-1)!.id : "" },
  };
}

/** By creator and by status, which may be repeated or hold several, joined by commas. */
export function byState<T extends { readonly status: string }>(asked: Fields, prefix: string): Keep<T> {
  const creator = asked.optional("created_by", text(256));
  const statuses = asked.optional("status", (value, path) =>
    (Array.isArray(value) ? value : [value]).flatMap((part) => text(1024)(part, path).split(",")),
  );
  return ({ status }) =>
    (creator === undefined || creator === "me" || creator === "local") &&
    (statuses === undefined || statuses.includes(`${prefix}${status}`));
}

function pageSize(value: unknown, path: string): number {
  const size = Number(text(16)(value, path));
  if (!Number.isInteger(size) || size < 1 || size > 100) {
    throw invalid(path, `expected a whole number from 1 to 100, got ${value}`);
  }
  return size;
}
