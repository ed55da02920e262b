// Reading a request's JSON: every reader takes a value and its path, and throws a Problem that names the path.
import { describe } from "../errors.ts";
import { invalid } from "./problem.ts";

export type Read<T> = (value: unknown, path: string) => T;

/** The members of one JSON object. `null` counts as absent. */
export class Fields {
  readonly path: string;
  readonly #members: Readonly<Record<string, unknown>>;

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw invalid(path, `expected an object, got ${describe(value)}`);
    }
    this.path = path;
    this.#members = value as Record<string, unknown>;
  }

  pathOf(name: string): string {
    return this.path === "" ? name : `${this.path}.${name}`;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#members, name) && this.#members[name] !== null;
  }

  names(): string[] {
    return Object.keys(this.#members).filter((name) => this.has(name));
  }

  required<T>(name: string, read: Read<T>): T {
    if (!this.has(name)) throw invalid(this.pathOf(name), "expected a value, got nothing");
    return read(this.#members[name], this.pathOf(name));
  }

  optional<T>(name: string, read: Read<T>): T | undefined {
    return this.has(name) ? read(this.#members[name], this.pathOf(name)) : undefined;
  }
}

export const fields: Read<Fields> = (value, path) => new Fields(value, path);

/** A string of at most `limit` UTF-16 units. */
export function text(limit = 4096): Read<string> {
  return (value, path) => {
    if (typeof value !== "string") throw invalid(path, `expected a string, got ${describe(value)}`);
    if (value.length > limit) {
      throw invalid(path, `expected at most ${limit} characters, got ${value.length}`);
    }
    return value;
  };
}

export const flag: Read<boolean> = (value, path) => {
  if (typeof value !== "boolean") throw invalid(path, `expected true or false, got ${describe(value)}`);
  return value;
};

/** A finite number in [`low`, `high`]. */
export function real(low = -Infinity, high = Infinity): Read<number> {
  return (value, path) => {
    if (typeof value !== "number" || !Number.isFinite(value) || value < low || value > high) {
      throw invalid(path, `expected a number${range(low, high)}, got ${describe(value)}`);
    }
    return value;
  };
}

/** A whole number in [`low`, `high`], given as a number. */
export function whole(low: number, high = Number.MAX_SAFE_INTEGER): Read<number> {
  return (value, path) => {
    if (!Number.isSafeInteger(value) || (value as number) < low || (value as number) > high) {
      throw invalid(path, `expected a whole number${range(low, high)}, got ${describe(value)}`);
    }
    return value as number;
  };
}

/** A signed 64-bit integer, given as a number or as decimal digits. */
export const int64: Read<bigint> = (value, path) => {
  const digits = typeof value === "string" && /^-?\d{1,19}$/.test(value);
  if (digits || Number.isSafeInteger(value)) {
    const integer = BigInt(value as string | number);
    if (BigInt.asIntN(64, integer) === integer) return integer;
  }
  throw invalid(path, `expected a 64-bit integer as a number or a string of digits, got ${describe(value)}`);
};

export function oneOf<const T extends string>(choices: readonly T[]): Read<T> {
  return (value, path) => {
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw invalid(path, `expected ${choices.join(" or ")}, got ${describe(value)}`);
    return found;
  };
}

/** An array of `least` to `most` items. */
export function list<T>(read: Read<T>, least = 0, most = Infinity): Read<T[]> {
  return (value, path) => {
    const items = array(value, path);
    if (items.length < least || items.length > most) {
      throw invalid(path, `expected ${count(least, most)}, got ${items.length}`);
    }
    return items.map((item, index) => read(item, `${path}[${index}]`));
  };
}

export function array(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalid(path, `expected an array, got ${describe(value)}`);
  return value;
}

function range(low: number, high: number): string {
  if (low === -Infinity && high === Infinity) return "";
  if (high === Infinity || high === Number.MAX_SAFE_INTEGER) return ` of at least ${low}`;
  return low === -Infinity ? ` of at most ${high}` : ` from ${low} to ${high}`;
}

function count(least: number, most: number): string {
  return most === Infinity ? `at least ${least} items` : `${least} to ${most} items`;
}
