// Checks small option objects and gives their fields the names of the wire.

import { describe, InputError } from "../errors.ts";
import { checkNames } from "../names.ts";

/** Checks one value and gives what the wire carries for it. `path` is for the error. */
type Rule = (path: string, value: unknown) => unknown;
export type Rules = Readonly<Record<string, Rule>>;

/**
 * The fields of `value` under their wire names (`learningRate` becomes `learning_rate`), each checked by its rule.
 * Undefined fields are left out; a field without a rule is an error.
 */
export function wireFields(
  path: string,
  value: unknown,
  rules: Rules,
  required: readonly string[] = [],
): Record<string, unknown> {
  if (typeof value !== "object" || value === null)
    throw new InputError(path, `expected an object, got ${describe(value)}`);
  checkNames(path, value, Object.keys(rules));
  for (const name of required) {
    if ((value as Record<string, unknown>)[name] === undefined)
      throw new InputError(`${path}.${name}`, "missing");
  }
  const fields: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value)) {
    if (field !== undefined) fields[wireName(name)] = rules[name]!(`${path}.${name}`, field);
  }
  return fields;
}

function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function rule(expected: string, holds: (value: unknown) => boolean): Rule {
  return (path, value) => {
    if (holds(value)) return value;
    throw new InputError(path, `expected ${expected}, got ${describe(value)}`);
  };
}

export const text = rule("a string", (value) => typeof value === "string");
export const flag = rule("true or false", (value) => typeof value === "boolean");
export const texts = rule(
  "an array of strings",
  (v) => Array.isArray(v) && v.every((t) => typeof t === "string"),
);
export const record = rule("an object", (value) => typeof value === "object" && value !== null);

/** A finite number from `min` to `max`. */
export const real = (min = -Infinity, max = Infinity): Rule =>
  rule(
    min === -Infinity && max === Infinity ? "a finite number" : `a finite number from ${min} to ${max}`,
    (value) => typeof value === "number" && Number.isFinite(value) && value >= min && value <= max,
  );

/** An integer from `min` to `max`. */
export const integer = (min: number, max = Number.MAX_SAFE_INTEGER): Rule =>
  rule(
    max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `an integer from ${min} to ${max}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
  );

/** A 64-bit integer: a plain number within 2^53 - 1, a BigInt, or a decimal string. */
export const int64: Rule = (path, value) => {
  if (Number.isSafeInteger(value)) return value;
  const exact =
    typeof value === "bigint" || (typeof value === "string" && /^-?\d{1,19}$/.test(value))
      ? BigInt(value)
      : undefined;
  if (exact !== undefined && BigInt.asIntN(64, exact) === exact) return String(exact);
  throw new InputError(path, `expected a 64-bit integer, got ${describe(value)}`);
};

/** One of `names`; the wire carries `prefix` and the name in capitals. */
export const choice =
  (prefix: string, names: readonly string[]): Rule =>
  (path, value) => {
    if (typeof value === "string" && names.includes(value)) return prefix + value.toUpperCase();
    throw new InputError(path, `expected ${names.map((n) => `"${n}"`).join(" or ")}, got ${describe(value)}`);
  };

/** An array of `names`, each as by `choice`. */
export const choices = (prefix: string, names: readonly string[]): Rule => {
  const one = choice(prefix, names);
  return (path, value) => {
    if (!Array.isArray(value)) throw new InputError(path, `expected an array, got ${describe(value)}`);
    return value.map((item, index) => one(`${path}[${index}]`, item));
  };
};

/** An object of its own. */
export const group =
  (rules: Rules): Rule =>
  (path, value) =>
    wireFields(path, value, rules);
