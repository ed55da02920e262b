// The full type of the trainer's addon.
import { loadAddon } from "../addon.ts";

export interface NativeConfig {
  readonly layers: number;
  /** A multiple of twice the heads. */
  readonly width: number;
  readonly heads: number;
  /** Tokens in the longest sequence. */
  readonly context: number;
  readonly vocabulary: number;
  /** Of the initial weights. */
  readonly seed: bigint;
  readonly precision: "float32" | "float64";
}

/** Rows of tokens, laid end to end; one target and one weight for each. */
export interface NativeBatch {
  readonly tokens: Int32Array;
  readonly targets: Int32Array;
  /** At least 0; 0 leaves a position out. */
  readonly weights: Float64Array;
  /** Row i is `[offsets[i], offsets[i + 1])`. */
  readonly offsets: Int32Array;
}

export interface NativeLoss {
  readonly type: "cross_entropy" | "importance_sampling" | "ppo" | "cispo" | "grpo" | "dro";
  /** Bounds of the ratio, absolute: ppo, cispo, grpo. */
  readonly clipLow: number;
  readonly clipHigh: number;
  /** Weight of the square (dro) or of the KL term (grpo). */
  readonly beta: number;
  readonly aggregation: "fixed_horizon" | "token_mean" | "sequence_mean";
  readonly sequenceRatio: boolean;
}

/** One number per position of the batch. */
export interface NativeLossInputs {
  readonly sampled?: Float64Array;
  readonly advantages?: Float64Array;
  readonly reference?: Float64Array;
}

interface NativePass {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** One per position of the batch, 0 where the weight is 0. */
  readonly logprobs: Float64Array;
}

export interface NativeAdam {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weightDecay: number;
  /** 0 clips nothing. */
  readonly gradClipNorm: number;
}

export interface NativeSampling {
  /** Prompts, laid end to end; prompt i is `[offsets[i], offsets[i + 1])`. */
  readonly tokens: Int32Array;
  readonly offsets: Int32Array;
  /** Completions per prompt. */
  readonly samples: number;
  readonly maxTokens: number;
  /** 0 always takes the most likely token. */
  readonly temperature: number;
  readonly topP: number;
  /** Below 1 keeps all. */
  readonly topK: number;
  readonly stop: readonly string[];
  readonly endOfText: number;
  readonly seed: bigint;
  readonly promptLogprobs: boolean;
  readonly topPromptLogprobs: number;
}

export interface NativeSamples {
  /** Step of the weights that were sampled from. */
  readonly version: number;
  /** Prompt 0 sample 0, prompt 0 sample 1, and so on. */
  readonly sequences: readonly {
    readonly tokens: Int32Array;
    readonly logprobs: Float64Array;
    readonly stopped: boolean;
  }[];
  /** One per prompt where prompts were scored; the top lists leave out the first token. */
  readonly prompts: readonly {
    readonly logprobs: Float64Array;
    readonly topTokens: Int32Array;
    readonly topLogprobs: Float64Array;
  }[];
}

/** Parameters, and after them the optimizer's two moments where it is to go on; numbers of the model's precision. */
export interface NativeState {
  readonly step: number;
  readonly parts: readonly Uint8Array[];
}

/** Work is done in the order of the calls, on one thread for all sessions. Promises reject with an `Error` with a `code`. */
export interface NativeSession {
  forwardBackward(
    batch: NativeBatch,
    loss: NativeLoss,
    inputs: NativeLossInputs,
    forwardOnly: boolean,
  ): Promise<NativePass>;
  /** `gradients`: d loss / d logprob, one per position of the batch. */
  customForwardBackward(batch: NativeBatch, gradients: Float64Array): Promise<void>;
  /** Resolves to the number of steps made so far. */
  optimStep(adam: NativeAdam): Promise<number>;
  /** Makes sampling use the current weights; resolves to their version. */
  publish(): Promise<number>;
  sample(request: NativeSampling): Promise<NativeSamples>;
  save(withOptimizer: boolean): Promise<NativeState>;
  /** Ends work under way and frees the session; its promises reject with `ERR_ABORTED`. Safe to call twice. */
  dispose(): void;
}

export interface TrainerAddon {
  /** Fresh weights from the seed, or restored ones. */
  createSession(config: NativeConfig, state?: NativeState): Promise<NativeSession>;
  /** Name and shape of every parameter, in the order of a saved part. */
  parameters(config: NativeConfig): readonly { readonly name: string; readonly shape: readonly number[] }[];
  /** CPUs that this process may really use, by affinity and control groups. */
  readonly availableCpus: number;
  /** Threads of libtorch, for all sessions of this environment. */
  setThreads(count: number): void;
}

/** The addon; see `loadAddon` for its errors. */
export const loadTrainer = (): TrainerAddon => loadAddon<TrainerAddon>("trainer");
