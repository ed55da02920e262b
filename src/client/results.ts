// What the operations give back, read from their outputs.

import { Answer } from "./answer.ts";
import type { LogprobsPart } from "./logprobs.ts";
import { NoLogprobsError } from "./operation-errors.ts";
import type { OperationKind } from "./submission.ts";

/** A token id: a plain number, or a BigInt beyond 2^53 - 1. */
export type Token = number | bigint;

export interface LossResult {
  /** The loss of the whole batch; for cross-entropy a sum over its trained tokens. */
  readonly loss: number;
  /** Named figures of the loss, such as `loss/kl_ref/mean`. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** One completion of a prompt. */
export interface Sequence {
  readonly tokens: readonly Token[];
  /** Log-probability of each token when it was sampled. */
  readonly logprobs: Float32Array | undefined;
  readonly stopReason: "length" | "stop";
  /** Tokens of the prompt that were found in the cache. */
  readonly promptCacheHitTokens: number;
  readonly routedExpertsKey: string | undefined;
}

/** The likeliest tokens of one prompt position, most likely first; empty at the first position. */
export interface TopLogprobs {
  readonly tokenIds: readonly number[];
  readonly logprobs: Float32Array;
}

/** What one prompt gave. */
export interface SampleResult {
  readonly sequences: readonly Sequence[];
  /** Which weights sampled which tokens: `version` counts optimizer steps, `startToken` begins with 0. */
  readonly policySegments: readonly { readonly version: number; readonly startToken: number }[];
  /** One per prompt token, the first a placeholder 0; where asked for. */
  readonly promptLogprobs: Float32Array | undefined;
  /** One per prompt token; where asked for. */
  readonly topkPromptLogprobs: readonly TopLogprobs[] | undefined;
}

export interface Artifact {
  readonly id: string;
  readonly revisionId: string | undefined;
}

export interface Checkpoint {
  readonly id: string;
  /** RFC 3339 time. */
  readonly createdAt: string | undefined;
  /** Optimizer steps taken before it. */
  readonly step: number;
  /** What the checkpoint was registered as: `model` and `adapter`, or `training` for a training checkpoint. */
  readonly registration: Readonly<Partial<Record<"adapter" | "model" | "training", Artifact>>>;
}

/** An operation as one look finds it. */
export interface OperationInfo {
  readonly id: string;
  readonly kind: OperationKind;
  readonly status: "PENDING" | "RUNNING" | "COMPLETED" | "FAILED" | (string & {});
  /** Its output as the API words it, where completed; large members may be a `payload_id`. */
  readonly output: Readonly<Record<string, unknown>> | undefined;
  readonly error: StatusError | undefined;
}

/** Why a resource, a session or an operation failed. */
export interface StatusError {
  readonly code: string | undefined;
  readonly message: string | undefined;
  /** RFC 3339 time, where given. */
  readonly occurredAt: string | undefined;
}

export function operationInfo(given: Answer, kind: OperationKind): OperationInfo {
  return {
    id: given.at("id").string(),
    kind,
    status: given.at("status").word("TRAINING_OPERATION_STATUS_"),
    output: given.maybe("output")?.object(),
    error: statusError(given.maybe("error"), "TRAINING_OPERATION_ERROR_CODE_"),
  };
}

export function lossResult(output: Answer): LossResult {
  const metrics: Record<string, number> = {};
  const given = output.maybe("metrics");
  for (const [name, value] of Object.entries(given?.object() ?? {})) {
    // A figure that is not finite cannot be written in JSON and arrives as null.
    metrics[name] = value === null ? Number.NaN : given!.at(name).number();
  }
  return { loss: output.at("loss").number(), metrics };
}

/** Throws where an output came without its log-probabilities. */
export function checkScored(output: Answer, logprobs: LogprobsPart): void {
  const outputs = output.maybe("loss_fn_outputs");
  const [first] = outputs?.elements() ?? [];
  if (outputs === undefined || first === undefined) throw new NoLogprobsError(output.request);
  if (logprobs.arrived) return;
  const row = new Answer(first, `${outputs.path}[0]`, output.request);
  row.at("tensors").at("logprobs").at("data").fail("the rows of all samples");
}

export function sampleResults(output: Answer, prompts: number): SampleResult[] {
  const results = output.at("results");
  const items = results.items();
  if (items.length !== prompts) results.fail(`${prompts} entries, one per prompt`);
  return items.map((result) => ({
    sequences: result.at("sequences").items().map(sequence),
    policySegments: (result.maybe("policy_segments")?.items() ?? []).map((segment) => ({
      version: segment.at("version").integer(),
      startToken: segment.at("start_token").integer(),
    })),
    promptLogprobs: floats(result.maybe("prompt_logprobs")),
    topkPromptLogprobs: result
      .maybe("topk_prompt_logprobs")
      ?.items()
      .map((top) => ({
        tokenIds: (top.maybe("token_ids")?.items() ?? []).map((id) => id.integer()),
        logprobs: floats(top.maybe("logprobs")) ?? new Float32Array(0),
      })),
  }));
}

function sequence(given: Answer): Sequence {
  const tokens = given
    .at("tokens")
    .items()
    .map((token) => token.int64());
  const logprobs = floats(given.maybe("logprobs"));
  if (logprobs !== undefined && logprobs.length !== tokens.length) {
    given.at("logprobs").fail(`${tokens.length} numbers, one per token`);
  }
  const stopReason = given.at("stop_reason");
  const reason = stopReason.word<string>("STOP_REASON_").toLowerCase();
  return {
    tokens,
    logprobs,
    stopReason: reason === "length" || reason === "stop" ? reason : stopReason.fail("LENGTH or STOP"),
    promptCacheHitTokens: given.maybe("prompt_cache_hit_tokens")?.integer() ?? 0,
    routedExpertsKey: given.maybe("routed_experts_key")?.string(),
  };
}

function floats(given: Answer | undefined): Float32Array | undefined {
  return given && Float32Array.from(given.items(), (item) => item.number());
}

export function checkpoint(given: Answer): Checkpoint {
  const registration: Partial<Record<"adapter" | "model" | "training", Artifact>> = {};
  const registered = given.maybe("registration");
  const inference = given.maybe("inference_registration") ?? registered;
  const training = given.maybe("training_registration") ?? (registered?.maybe("id") && registered);
  for (const [name, artifact] of [
    ["adapter", inference?.maybe("adapter")],
    ["model", inference?.maybe("model")],
    ["training", training],
  ] as const) {
    if (artifact === undefined) continue;
    registration[name] = {
      id: artifact.at("id").string(),
      revisionId: artifact.maybe("revision_id")?.string(),
    };
  }
  return {
    id: given.at("id").string(),
    createdAt: given.maybe("created_at")?.string(),
    step: given.at("step").integer(),
    registration,
  };
}

export function statusError(given: Answer | undefined, prefix: string): StatusError | undefined {
  return (
    given && {
      code: given.maybe("code")?.word<string>(prefix),
      message: given.maybe("message")?.string(),
      occurredAt: given.maybe("occurred_at")?.string(),
    }
  );
}
