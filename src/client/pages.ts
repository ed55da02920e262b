// Lists of the API: read a page at a time, given item by item or page by page.

import type { Answer } from "./answer.ts";
import { type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";
import { type Rules, wireFields } from "./fields.ts";

/** What every list takes. */
export interface ListOptions extends CallOptions {
  /** Items of one request, 1 to 100; by default the service's choice. */
  readonly limit?: number | undefined;
  /** Goes on behind the item that an earlier page ended with: its `nextCursor`. */
  readonly after?: string | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Where the next page begins; undefined for the last one. */
  readonly nextCursor: string | undefined;
}

/**
 * A list. `for await (const item of list)` gives its items, `list.pages()` whole pages; a page is asked for when it is
 * needed. `timeoutMs` holds for each page.
 */
export class List<T> implements AsyncIterable<T> {
  readonly #core: Core;
  readonly #name: string;
  readonly #path: string;
  readonly #filter: Readonly<Record<string, unknown>>;
  readonly #options: CallOptions;
  readonly #read: (given: Answer) => T;

  /** `options` are the call's own and those that `rules` know. */
  constructor(
    core: Core,
    name: string,
    path: string,
    options: CallOptions,
    rules: Rules,
    read: (given: Answer) => T,
  ) {
    const { signal, timeoutMs, ...filter } = options;
    this.#core = core;
    this.#name = name;
    this.#path = path;
    this.#filter = wireFields(name, filter, rules);
    this.#options = { signal, timeoutMs };
    this.#read = read;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    for await (const { items } of this.pages()) yield* items;
  }

  async *pages(): AsyncIterableIterator<Page<T>> {
    let after = this.#filter.after as string | undefined;
    do {
      const page: Page<T> = await this.#page(after);
      yield page;
      after = page.nextCursor;
    } while (after !== undefined);
  }

  #page(after: string | undefined): Promise<Page<T>> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...this.#filter, after })) {
      if (value !== undefined) query.append(name, Array.isArray(value) ? value.join(",") : String(value));
    }
    const path = query.size === 0 ? this.#path : `${this.#path}?${query}`;
    return runCall(this.#name, this.#options, this.#core.timeoutMs, async (call) => {
      const answer = await this.#core.sender.send({ method: "GET", path }, call);
      const meta = answer.maybe("meta");
      const next = meta?.maybe("next_cursor")?.string();
      const more = next !== undefined && next !== "" && meta?.maybe("has_more")?.boolean() !== false;
      // A service that hands out the same cursor again would never come to an end.
      return {
        items: answer.at("data").items().map(this.#read),
        nextCursor: more && next !== after ? next : undefined,
      };
    });
  }
}
