// What tokengrad exports.
export { LibtorchVersionError, LoadError } from "./addon.ts";
export {
  ApiError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  GoneError,
  IdempotencyConflictError,
  NotFoundError,
  PayloadTooLargeError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
  UnprocessableEntityError,
} from "./client/api-errors.ts";
export type { CallOptions } from "./client/call.ts";
export type {
  CheckpointInfo,
  CheckpointListOptions,
  CheckpointsApi,
  DownloadOptions,
} from "./client/checkpoints.ts";
export { Client, type ClientOptions } from "./client/client.ts";
export { DownloadError, type DownloadProgress } from "./client/download.ts";
export {
  type Attempt,
  CallAbortedError,
  ClientClosedError,
  ClientError,
  ConnectionError,
  ResponseError,
  ResponseTooLargeError,
  TimeoutError,
} from "./client/errors.ts";
export type { Logger, OperationEvent, RequestEvent, RetryEvent, Tracer } from "./client/events.ts";
export type { WireFormat } from "./client/formats.ts";
export type { Gradients as ClientGradients, GradientsLike } from "./client/gradients.ts";
export type { LossConfig } from "./client/loss.ts";
export type {
  Cost,
  ModelResources,
  ModelResourcesApi,
  ModelResourcesListOptions,
  ModelResourcesOptions,
  ModelResourcesStatus,
} from "./client/model-resources.ts";
export type { OpenResources } from "./client/open-resources.ts";
export type { OperationOptions } from "./client/operation.ts";
export {
  AmbiguousStepError,
  NoLogprobsError,
  NotSentError,
  OperationFailedError,
  type OperationFailure,
  PartialPassError,
} from "./client/operation-errors.ts";
export type { List, ListOptions, Page } from "./client/pages.ts";
export type { PayloadMode } from "./client/payloads.ts";
export type { PreparedSamples, SamplesLike } from "./client/prepared.ts";
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
  OperationInfo,
  SampleResult,
  Sequence,
  StatusError,
  Token,
  TopLogprobs,
} from "./client/results.ts";
export type { NumberRow, RoutedExperts, Sample, TokenRow } from "./client/sample.ts";
export type { ForwardBackwardOptions, ForwardOptions, Operations, Session } from "./client/session.ts";
export type { SessionInfo, SessionStatus, SessionUpdate, StopOptions } from "./client/session-info.ts";
export type { SessionListOptions, SessionsApi } from "./client/sessions.ts";
export type { SessionOptions } from "./client/starting.ts";
export type { OperationKind } from "./client/submission.ts";
export type { Operation } from "./client/submit.ts";
export type { ComputeConfig, SupportedModel } from "./client/supported-models.ts";
export { StartError, type StartOptions, type StartProgress } from "./client/waiting.ts";
export { type Batch, type BatchInput, type BatchOptions, createBatch } from "./engine/batch.ts";
export { toFloat32 } from "./engine/bfloat16.ts";
export type { CudaInfo, Dtype, ExecutorName, Precision } from "./engine/binding.ts";
export type {
  CheckedElement,
  CheckedInput,
  GradientCheck,
} from "./engine/check-gradients.ts";
export { createEngine, type Engine } from "./engine/engine.ts";
export {
  DeviceError,
  type DeviceReason,
  DisposedError,
  EmptyBatchError,
  NonFiniteError,
} from "./engine/errors.ts";
export type { GradientRow, Gradients } from "./engine/gradients.ts";
export type { InspectedTerm, InspectedValue, Inspection } from "./engine/inspection.ts";
export type {
  CheckGradientsOptions,
  DeviceName,
  EngineInfo,
  EngineOptions,
  Fallback,
  InspectOptions,
  RunOptions,
  RunResult,
} from "./engine/options.ts";
export { AbortError, InputError, NativeError, TokengradError } from "./errors.ts";
export {
  type AnyTensor,
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
export type { Row } from "./rows/rows.ts";
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
