// Reads a parsed JSON answer field by field; an error names the field and the request.
import { describe } from "../errors.ts";
import { ResponseError } from "./errors.ts";

/** A value of an answer, with its path in it. */
export class Answer {
  readonly value: unknown;
  readonly path: string;
  /** The request, as `METHOD url`. */
  readonly request: string;

  constructor(value: unknown, path: string, request: string) {
    this.value = value;
    this.path = path;
    this.request = request;
  }

  fail(expected: string): never {
    const got = this.value === undefined ? "nothing" : describe(this.value);
    throw new ResponseError(`${this.path || "answer"}: expected ${expected}, got ${got} (${this.request})`);
  }

  /** A member that may be missing; `null` counts as missing. */
  maybe(name: string): Answer | undefined {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value)) this.fail("an object");
    const member: unknown = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
    return member === undefined || member === null ? undefined : this.#inside(`.${name}`, member);
  }

  at(name: string): Answer {
    return this.maybe(name) ?? this.#inside(`.${name}`, undefined).fail("a value");
  }

  string(): string {
    return typeof this.value === "string" ? this.value : this.fail("a string");
  }

  boolean(): boolean {
    return typeof this.value === "boolean" ? this.value : this.fail("true or false");
  }

  number(): number {
    return typeof this.value === "number" ? this.value : this.fail("a number");
  }

  /** A 64-bit integer, written as a number or as a decimal string; a BigInt beyond 2^53 - 1. */
  int64(): number | bigint {
    const { value } = this;
    if (typeof value === "number" && Number.isSafeInteger(value)) return value;
    if (typeof value === "string" && /^-?\d{1,19}$/.test(value)) {
      return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value);
    }
    // A larger plain number has already lost digits in JSON.parse.
    return this.fail("an integer within 2^53 - 1 or a decimal string");
  }

  /** An integer within 2^53 - 1, written as a number or as a decimal string. */
  integer(): number {
    const integer = this.int64();
    return typeof integer === "number" ? integer : this.fail("an integer within 2^53 - 1");
  }

  /** A word of an enum, without the prefix that its type repeats. */
  word<Word extends string>(prefix: string): Word {
    const word = this.string();
    return (word.startsWith(prefix) ? word.slice(prefix.length) : word) as Word;
  }

  /** The elements of an array, unchecked. */
  elements(): readonly unknown[] {
    return Array.isArray(this.value) ? this.value : this.fail("an array");
  }

  items(): Answer[] {
    return this.elements().map((element, index) => this.#inside(`[${index}]`, element));
  }

  object(): Readonly<Record<string, unknown>> {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return this.fail("an object");
    return value as Record<string, unknown>;
  }

  #inside(step: string, value: unknown): Answer {
    return new Answer(value, `${this.path}${step}`.replace(/^\./, ""), this.request);
  }
}
