// What tokengrad exports.
export { LibtorchVersionError, LoadError } from "./addon.ts";
export type { CallOptions } from "./client/call.ts";
export { Client, type ClientOptions } from "./client/client.ts";
export {
  ApiError,
  AuthenticationError,
  BadRequestError,
  CallAbortedError,
  ClientClosedError,
  ConflictError,
  ConnectionError,
  NoLogprobsError,
  NotFoundError,
  OperationFailedError,
  type OperationFailure,
  PermissionDeniedError,
  RateLimitError,
  ResponseError,
  ServerError,
  TimeoutError,
  UnprocessableEntityError,
} from "./client/errors.ts";
export type { Gradients as ClientGradients, GradientsLike } from "./client/gradients.ts";
export type { LossConfig } from "./client/loss.ts";
export type { ModelResources, ModelResourcesApi, ModelResourcesOptions } from "./client/model-resources.ts";
export type { Operation, OperationKind, OperationOptions } from "./client/operation.ts";
export type {
  AdamOptions,
  MuonOptions,
  OptimizerOptions,
  SamplingOptions,
  WeightsSyncOptions,
} from "./client/requests.ts";
export type {
  Artifact,
  Checkpoint,
  LossResult,
  SampleResult,
  Sequence,
  Token,
  TopLogprobs,
} from "./client/results.ts";
export type { NumberRow, RoutedExperts, Sample, TokenRow } from "./client/sample.ts";
export type { ForwardBackwardOptions, ForwardOptions, Session } from "./client/session.ts";
export type { SessionInfo } from "./client/session-info.ts";
export type { SessionOptions, SessionsApi } from "./client/sessions.ts";
export type { WireFormat } from "./client/wire.ts";
export { type Batch, type BatchInput, type BatchOptions, createBatch } from "./engine/batch.ts";
export { toFloat32 } from "./engine/bfloat16.ts";
export type { CudaInfo, Dtype, ExecutorName, Precision } from "./engine/binding.ts";
export type {
  CheckedElement,
  CheckedInput,
  CheckOptions,
  GradientCheck,
} from "./engine/check-gradients.ts";
export {
  type CheckGradientsOptions,
  createEngine,
  type DeviceName,
  type Engine,
  type EngineInfo,
  type EngineOptions,
  type Fallback,
  type InspectOptions,
  type RunOptions,
  type RunResult,
} from "./engine/engine.ts";
export {
  DeviceError,
  type DeviceReason,
  DisposedError,
  EmptyBatchError,
  NativeError,
  NonFiniteError,
} from "./engine/errors.ts";
export type { GradientRow, Gradients } from "./engine/gradients.ts";
export type { InspectedTerm, InspectedValue, Inspection } from "./engine/inspection.ts";
export { AbortError, InputError, TokengradError } from "./errors.ts";
export {
  defineLoss,
  type Loss,
  type LossArguments,
  type LossDefinition,
  type LossInput,
  type LossInputs,
  type LossOutput,
  type LossParams,
  perGroup,
  perSample,
  perToken,
} from "./loss/define.ts";
export { LossError, type LossErrorCode } from "./loss/errors.ts";
export type {
  Axis,
  Graph,
  GraphInput,
  GraphNode,
  Kind,
  NamedNode,
  Program,
  ProgramNode,
} from "./loss/graph.ts";
export { printProgram } from "./loss/print.ts";
export type { CumsumOptions, Mask, Tensor } from "./loss/tensor.ts";
export * from "./losses/index.ts";
export { Progress, type ProgressReport } from "./progress.ts";
export * from "./training/advantages/index.ts";
export {
  type CustomForwardBackwardOptions,
  type CustomForwardBackwardResult,
  computeCustomForwardBackward,
  computeLogprobs,
} from "./training/custom-loss.ts";
export { type BatchOrder, batchAt, seededRandom } from "./training/order.ts";
export {
  buildGroups,
  buildLabelled,
  buildPairs,
  buildResponses,
  type CompletionRecord,
  type LabelledOptions,
  type LabelledRecord,
  type PairRecord,
  type ResponseRecord,
} from "./training/records.ts";
export {
  type ReferenceCache,
  type ReferenceOptions,
  type ReferenceProgress,
  referenceLogprobs,
} from "./training/reference.ts";
export type { TokenResponse } from "./training/responses.ts";
export {
  type Reward,
  type Rollout,
  type RolloutOptions,
  type RolloutStep,
  rolloutSteps,
  type Sampled,
  type SampleRolloutsOptions,
  sampleRollouts,
} from "./training/rollouts.ts";
export { loadRun, type RunState, saveRun } from "./training/run-state.ts";
export { SampleSet, type SampleSetOptions, type SetInputs } from "./training/sample-set.ts";
export { buildCrossEntropySample, extractLossMask } from "./training/samples.ts";
