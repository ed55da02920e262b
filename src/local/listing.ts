// Pages of a list: filters, cursor and limit from the query.
import { type Fields, fields, text } from "./fields.ts";
import { invalid } from "./problem.ts";

const DEFAULT_LIMIT = 20;

/** Which items a query asks for. `status` may be repeated or hold several, joined by commas. */
export function page<T extends { readonly id: string; readonly status: string; body(): object }>(
  items: readonly T[],
  query: unknown,
  statusPrefix: string,
  keep: (item: T, query: Fields) => boolean = () => true,
): object {
  const asked = fields(query, "");
  const creator = asked.optional("created_by", text(256));
  const statuses = asked.optional("status", (value, path) =>
    (Array.isArray(value) ? value : [value]).flatMap((part) => text(1024)(part, path).split(",")),
  );
  const wanted = items.filter(
    (item) =>
      (creator === undefined || creator === "me" || creator === "local") &&
      (statuses === undefined || statuses.includes(`${statusPrefix}${item.status}`)) &&
      keep(item, asked),
  );
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

function pageSize(value: unknown, path: string): number {
  const size = Number(text(16)(value, path));
  if (!Number.isInteger(size) || size < 1 || size > 100) {
    throw invalid(path, `expected a whole number from 1 to 100, got ${value}`);
  }
  return size;
}
