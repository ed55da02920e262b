// Numbers on the command line.
import { InvalidArgumentError } from "commander";

/** A whole number of at least 0, for commander. */
export function wholeNumber(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw new InvalidArgumentError("expected a whole number.");
}

/** A number from 0 to 1, for commander. */
export function share(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError("expected a number from 0 to 1.");
}
