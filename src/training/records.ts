// From records, as data sets and samplers have them, to samples in groups: pairs, completions of prompts, labelled answers.
import type { TokenRow } from "../client/sample.ts";
import { describe, InputError } from "../errors.ts";
import { checkNames } from "../names.ts";
import {
  readPrompt,
  readResponse,
  responseRow,
  responseSample,
  sameTokens,
  type TokenResponse,
} from "./responses.ts";
import { SampleSet } from "./sample-set.ts";

function readRecords(path: string, records: unknown, known: readonly string[]): void {
  if (!Array.isArray(records) || records.length === 0)
    throw new InputError(path, `expected at least one record, got ${describe(records)}`);
  for (const [i, record] of records.entries()) {
    if (typeof record !== "object" || record === null)
      throw new InputError(`${path}[${i}]`, `expected a record, got ${describe(record)}`);
    checkNames(`${path}[${i}]`, record, known);
  }
}

/** A prompt and its response, in tokens. */
export interface ResponseRecord {
  /** At least one token. */
  readonly prompt: TokenRow;
  readonly response: TokenResponse;
}

/**
 * Samples that train on their responses, each a group of its own.
 *
 * @throws {InputError} naming the record, if a prompt or a response is missing or empty.
 */
export function buildResponses(records: readonly ResponseRecord[]): SampleSet {
  readRecords("responses", records, ["prompt", "response"]);
  const samples = records.map(({ prompt, response }, i) => {
    const path = `responses[${i}]`;
    return responseSample(readPrompt(`${path}.prompt`, prompt), readResponse(`${path}.response`, response));
  });
  return new SampleSet({ samples });
}

/** A prompt with a response that is preferred to another, in tokens. */
export interface PairRecord {
  /** At least one token. */
  readonly prompt: TokenRow;
  readonly chosen: TokenResponse;
  readonly rejected: TokenResponse;
}

/**
 * Preference pairs: groups of two samples, chosen and rejected, that train on their responses.
 *
 * @throws {InputError} naming the record, if a response is missing or empty, or both are the same: such a pair teaches
 * nothing.
 */
export function buildPairs(records: readonly PairRecord[]): SampleSet {
  readRecords("pairs", records, ["prompt", "chosen", "rejected"]);
  const samples = records.flatMap((record, i) => {
    const path = `pairs[${i}]`;
    const prompt = readPrompt(`${path}.prompt`, record.prompt);
    const chosen = readResponse(`${path}.chosen`, record.chosen);
    const rejected = readResponse(`${path}.rejected`, record.rejected);
    if (sameTokens(chosen.tokens, rejected.tokens))
      throw new InputError(path, "expected two responses, got the same one as chosen and rejected");
    return [responseSample(prompt, chosen), responseSample(prompt, rejected)];
  });
  return new SampleSet({ samples, groups: 2 });
}

/** A prompt and what was sampled for it. */
export interface CompletionRecord {
  /** At least one token. */
  readonly prompt: TokenRow;
  /** Such as `results[i].sequences` of `session.sample`. */
  readonly completions: readonly TokenResponse[];
}

/**
 * Completions in the groups of their prompts, with the input `old`: the sampler's log-probabilities, in line with the
 * samples. An empty completion is a sample without trained tokens: its gradient is 0, and means over samples count it as 0.
 *
 * @throws {InputError} naming prompt and completion, if a prompt has no completion or a completion no log-probabilities.
 */
export function buildGroups(records: readonly CompletionRecord[]): SampleSet<"old"> {
  readRecords("groups", records, ["prompt", "completions", "rewards", "policyVersion"]);
  const all = records.flatMap((record, i) => {
    const path = `groups[${i}]`;
    const prompt = readPrompt(`${path}.prompt`, record.prompt);
    if (!Array.isArray(record.completions) || record.completions.length === 0) {
      const came = describe(record.completions);
      throw new InputError(`${path}.completions`, `expected at least one completion, got ${came}`);
    }
    return record.completions.map((completion: TokenResponse, k) => {
      const place = `${path}.completions[${k}]`;
      const response = readResponse(place, completion, true);
      if (prompt.length + response.tokens.length < 2)
        throw new InputError(place, "expected at least two tokens together with the prompt, got one");
      return { place, prompt, response };
    });
  });
  const samples = all.map(({ prompt, response }) => responseSample(prompt, response));
  const old = all.map(({ place, prompt, response }) => {
    if (response.logprobs === undefined)
      throw new InputError(`${place}.logprobs`, "expected the sampler's log-probabilities, got none");
    return responseRow(prompt, response.logprobs);
  });
  return new SampleSet({
    samples,
    groups: records.map(({ completions }) => completions.length),
    inputs: { old },
  });
}

/** A prompt and a response that is known to be desirable or not. */
export interface LabelledRecord extends ResponseRecord {
  readonly desirable: boolean;
}

export interface LabelledOptions {
  /**
   * Puts beside each sample, into its group, one for the baseline of `kto`: the same prompt with the response to the next
   * other prompt, of label 0. Default true; `bco` and `kto({ type: "apo_zero" })` need none.
   */
  readonly baseline?: boolean;
}

/**
 * Labelled samples with the input `labels`: 1 desirable, -1 undesirable, 0 for the baseline.
 *
 * @throws {InputError} naming the record, if a response is missing or empty or a label is neither true nor false; if there
 * is to be a baseline and all prompts are the same.
 */
export function buildLabelled(
  records: readonly LabelledRecord[],
  options: LabelledOptions = {},
): SampleSet<"labels"> {
  checkNames("buildLabelled", options, ["baseline"]);
  const { baseline = true } = options;
  readRecords("labelled", records, ["prompt", "response", "desirable"]);
  const read = records.map(({ prompt, response, desirable }, i) => {
    const path = `labelled[${i}]`;
    if (typeof desirable !== "boolean")
      throw new InputError(`${path}.desirable`, `expected true or false, got ${describe(desirable)}`);
    return {
      prompt: readPrompt(`${path}.prompt`, prompt),
      response: readResponse(`${path}.response`, response),
      label: desirable ? 1 : -1,
    };
  });
  const own = read.map(({ prompt, response }) => responseSample(prompt, response));
  if (!baseline) {
    return new SampleSet({ samples: own, inputs: { labels: read.map(({ label }) => label) } });
  }
  const samples = read.flatMap(({ prompt }, i) => {
    const later = [...read.slice(i + 1), ...read.slice(0, i)];
    const other = later.find((one) => !sameTokens(one.prompt, prompt));
    if (other === undefined)
      throw new InputError("labelled", "expected two different prompts at least, for the baseline");
    return [own[i]!, responseSample(prompt, other.response)];
  });
  return new SampleSet({ samples, groups: 2, inputs: { labels: read.flatMap(({ label }) => [label, 0]) } });
}
