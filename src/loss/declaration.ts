// Checks what a loss declares, before its function runs.
import { describe } from "../errors.ts";
import { faultOfNames, isRecord } from "../names.ts";
import type { LossInputs, LossParams } from "./define.ts";
import { refuse } from "./errors.ts";

const PARTS = ["name", "inputs", "params", "loss"];

const wrong = (problem: string): never => refuse("ERR_LOSS_DEFINITION", problem);

/** Refuses what does not have the parts of a declaration. */
function checkParts(definition: unknown): asserts definition is Readonly<Record<string, unknown>> {
  const fault = faultOfNames(definition, PARTS);
  if (fault !== undefined)
    wrong(`defineLoss${fault.name === undefined ? "" : `: ${fault.name}`}: ${fault.problem}`);
  const { name, inputs = {}, params = {}, loss } = definition as Readonly<Record<string, unknown>>;
  if (name !== undefined && typeof name !== "string")
    wrong(`defineLoss: name: expected a string, got ${describe(name)}`);
  if (typeof loss !== "function") wrong(`defineLoss: loss: expected a function, got ${describe(loss)}`);
  for (const [part, given] of Object.entries({ inputs, params })) {
    if (!isRecord(given)) wrong(`defineLoss: ${part}: expected an object by name, got ${describe(given)}`);
  }
}

/**
 * Checks a declaration as far as it can be without running its function.
 *
 * @throws {LossError} with code `ERR_LOSS_DEFINITION` and the line of the caller.
 */
export function checkDeclaration(definition: unknown): void {
  checkParts(definition);
  const { name = "loss" } = definition;
  const { inputs = {}, params = {} } = definition as { inputs?: LossInputs; params?: LossParams };
  const taken = new Set(["logprobs", "weights"]);
  for (const key of [...Object.keys(inputs), ...Object.keys(params)]) {
    if (taken.has(key)) wrong(`${name}: the name "${key}" is taken`);
    taken.add(key);
  }
  for (const [key, input] of Object.entries(inputs)) {
    if (!["token", "sample", "group"].includes(input?.axis)) {
      wrong(`${name}: inputs.${key}: expected perToken(), perSample() or perGroup(), got ${describe(input)}`);
    }
  }
  for (const [key, value] of Object.entries(params)) {
    if (!Number.isFinite(value))
      wrong(`${name}: params.${key}: expected a finite number, got ${describe(value)}`);
  }
}
