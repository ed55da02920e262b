// Sample requests, and their results as the API words them.
import { randomBytes } from "node:crypto";
import type { NativeConfig, NativeSamples, NativeSampling } from "./binding.ts";
import { fields, flag, int64, list, type Read, real, text, whole } from "./fields.ts";
import { invalid } from "./problem.ts";
import { join, offsets } from "./rows.ts";
import { MAX_BATCH_SIZE, modelInput } from "./samples.ts";

/** Tokens of a completion where the request does not say. */
export const DEFAULT_MAX_TOKENS = 128;

/** The body of a sample operation. A completion also ends where prompt and completion fill the context. */
export function sampling(config: NativeConfig, endOfText: number): Read<NativeSampling> {
  return (value, path) => {
    const body = fields(value, path);
    const prompts = body.required(
      "model_inputs",
      list(modelInput(config, config.context - 1), 1, MAX_BATCH_SIZE),
    );
    const samples = body.optional("num_samples", whole(1, MAX_BATCH_SIZE)) ?? 1;
    if (prompts.length * samples > MAX_BATCH_SIZE) {
      throw invalid(
        body.pathOf("num_samples"),
        `expected at most ${MAX_BATCH_SIZE} completions in all, got ${prompts.length * samples}`,
      );
    }
    body.optional("return_routed_experts", flag);
    const params = body.optional("sampling_params", fields);
    const seed = params?.optional("seed", int64) ?? randomBytes(8).readBigInt64LE();
    return {
      tokens: join(prompts, Int32Array),
      offsets: offsets(prompts),
      samples,
      maxTokens: params?.optional("max_tokens", whole(1, 2 ** 31 - 1)) ?? DEFAULT_MAX_TOKENS,
      temperature: params?.optional("temperature", real(0, 1e6)) ?? 1,
      topP: params?.optional("top_p", probability) ?? 1,
      topK: params?.optional("top_k", whole(-1, 2 ** 31 - 1)) ?? -1,
      stop: params?.optional("stop", list(stopString, 0, 64)) ?? [],
      endOfText,
      seed: BigInt.asUintN(64, seed),
      promptLogprobs: body.optional("prompt_logprobs", flag) ?? false,
      topPromptLogprobs: body.optional("topk_prompt_logprobs", whole(0, 20)) ?? 0,
    };
  };
}

const probability: Read<number> = (value, path) => {
  const number = real(0, 1)(value, path);
  if (number === 0) throw invalid(path, "expected a number above 0, up to 1, got 0");
  return number;
};

const stopString: Read<string> = (value, path) => {
  const stop = text(1024)(value, path);
  if (stop === "") throw invalid(path, "expected a string that is not empty");
  return stop;
};

/** The `output` of a finished sample operation. 64-bit integers are strings, as the service sends them. */
export function sampleOutput(
  request: NativeSampling,
  { version, sequences, prompts }: NativeSamples,
): object {
  const results = [];
  for (let prompt = 0; prompt + 1 < request.offsets.length; prompt++) {
    const own = sequences.slice(prompt * request.samples, (prompt + 1) * request.samples);
    const scores = prompts[prompt];
    results.push({
      sequences: own.map(({ tokens, logprobs, stopped }) => ({
        tokens: Array.from(tokens, String),
        logprobs: Array.from(logprobs),
        stop_reason: stopped ? "STOP_REASON_STOP" : "STOP_REASON_LENGTH",
        prompt_cache_hit_tokens: 0,
      })),
      policy_segments: [{ version, start_token: 0 }],
      ...(request.promptLogprobs && scores ? { prompt_logprobs: Array.from(scores.logprobs) } : {}),
      ...(request.topPromptLogprobs > 0 && scores ? { topk_prompt_logprobs: alternatives(scores) } : {}),
    });
  }
  return { results };
}

function alternatives({ logprobs, topTokens, topLogprobs }: NativeSamples["prompts"][number]): object[] {
  const top = logprobs.length > 1 ? topTokens.length / (logprobs.length - 1) : 0;
  return Array.from(logprobs, (_, position) => {
    const begin = Math.max(0, position - 1) * top;
    const end = position * top;
    return {
      token_ids: Array.from(topTokens.subarray(begin, end)),
      logprobs: Array.from(topLogprobs.subarray(begin, end)),
    };
  });
}
