// Training samples of both wire formats, checked and packed for the trainer.
import type { NativeBatch, NativeConfig, NativeLossInputs } from "./binding.ts";
import { array, type Fields, fields, list, oneOf, type Read, text, whole } from "./fields.ts";
import { invalid } from "./problem.ts";
import { type Dtype, join, numbers, offsets, TENSOR_DTYPES, tokens, WIRE_DTYPES } from "./rows.ts";

/** Samples in one operation, and prompts times completions in another. */
export const MAX_BATCH_SIZE = 4096;

/** What the losses read besides targets and weights: name on the wire, name in the trainer. */
const POLICY_ROWS = {
  logprobs: "sampled",
  advantages: "advantages",
  reference_logprobs: "reference",
} as const;

type PolicyRow = keyof typeof POLICY_ROWS;

/** Which rows an operation reads from its samples. */
export interface RowPlan {
  /** Member of `loss_inputs` that holds the policy rows, such as `ppo_inputs`. */
  readonly member?: string;
  readonly required: readonly PolicyRow[];
  readonly optional: readonly PolicyRow[];
  /** Whether `loss_fn_inputs` must say which positions count. */
  readonly weights: "required" | "optional";
}

export const CUSTOM_ROWS: RowPlan = { required: [], optional: [], weights: "optional" };

interface DecodedSamples {
  readonly batch: NativeBatch;
  readonly inputs: NativeLossInputs;
}

interface Row {
  readonly tokens: Int32Array;
  readonly targets: Int32Array;
  readonly weights: Float64Array;
  readonly policy: Partial<Record<PolicyRow, Float64Array>>;
}

/** The concatenated tokens of a ModelInput, 1 to `most` of them. */
export function modelInput(config: NativeConfig, most: number): Read<Int32Array> {
  return (value, path) => {
    const chunk: Read<Int32Array> = (item, at) =>
      fields(item, at).required("encoded_text", fields).required("tokens", tokens(config.vocabulary, true));
    const chunks = fields(value, path).required("chunks", list(chunk, 1));
    const row = join(chunks, Int32Array);
    if (row.length < 1 || row.length > most) {
      throw invalid(path, `expected 1 to ${most} tokens, got ${row.length}`);
    }
    return row;
  };
}

/** The `samples` of a request body. Zero weights leave positions out; without weights all positions count. */
export function samples(config: NativeConfig, plan: RowPlan): Read<DecodedSamples> {
  return (value, path) => {
    const rows = list((item, at) => sample(fields(item, at), config, plan), 1, MAX_BATCH_SIZE)(value, path);
    const inputs: { -readonly [name in keyof NativeLossInputs]: NativeLossInputs[name] } = {};
    for (const [name, native] of Object.entries(POLICY_ROWS)) {
      const given = rows.flatMap(({ policy }) => policy[name as PolicyRow] ?? []);
      if (given.length === 0) continue;
      if (given.length < rows.length) {
        const without = rows.findIndex(({ policy }) => policy[name as PolicyRow] === undefined);
        throw invalid(`${path}[${without}]`, `expected ${name}, which other samples have`);
      }
      inputs[native] = join(given, Float64Array);
    }
    const each = (key: "tokens" | "targets") =>
      join(
        rows.map((row) => row[key]),
        Int32Array,
      );
    const weights = join(
      rows.map((row) => row.weights),
      Float64Array,
    );
    const batch = { tokens: each("tokens"), targets: each("targets"), weights };
    return { batch: { ...batch, offsets: offsets(rows.map((row) => row.tokens)) }, inputs };
  };
}

function sample(item: Fields, config: NativeConfig, plan: RowPlan): Row {
  const row = item.required("model_input", modelInput(config, config.context));
  item.optional("routed_experts_key", text());
  if (item.has("loss_fn_inputs") === item.has("loss_inputs")) {
    throw invalid(item.path, "expected either loss_fn_inputs or loss_inputs");
  }
  const inputs = item.has("loss_fn_inputs")
    ? openInputs(item.required("loss_fn_inputs", fields), config, plan)
    : typedInputs(item.required("loss_inputs", fields), config, plan);
  const check = (found: { readonly length: number } | undefined, name: string) => {
    if (found === undefined || found.length === row.length) return;
    throw invalid(name, `expected ${row.length} values, one per token of model_input, got ${found.length}`);
  };
  check(inputs.targets, `${inputs.path}.target_tokens`);
  check(inputs.weights, inputs.weightsPath);
  for (const [name, values] of Object.entries(inputs.policy)) check(values, `${inputs.policyPath}.${name}`);
  const negative = inputs.weights?.findIndex((weight) => weight < 0) ?? -1;
  if (negative >= 0) {
    throw invalid(
      `${inputs.weightsPath}.data[${negative}]`,
      `expected a weight of at least 0, got ${inputs.weights![negative]}`,
    );
  }
  const weights = inputs.weights ?? new Float64Array(row.length).fill(1);
  return { tokens: row, targets: inputs.targets, weights, policy: inputs.policy };
}

interface Inputs {
  readonly path: string;
  readonly targets: Int32Array;
  readonly weightsPath: string;
  readonly weights: Float64Array | undefined;
  readonly policyPath: string;
  readonly policy: Row["policy"];
}

/** `loss_fn_inputs`: an open map of tensors, dtypes in lower case. */
function openInputs(map: Fields, config: NativeConfig, plan: RowPlan): Inputs {
  const floats = tensor(["float32"], numbers);
  const either = tensor(TENSOR_DTYPES, numbers);
  const targets = map.required(
    "target_tokens",
    tensor(["int64"], () => tokens(config.vocabulary, false)),
  );
  if (map.has("weights") && map.has("mask")) throw invalid(map.path, "expected weights or mask, got both");
  if (plan.weights === "required" && !map.has("weights")) map.required("weights", either);
  const mask = map.optional("mask", either)?.map((value) => (value === 0 ? 0 : 1));
  const policy: Row["policy"] = {};
  for (const name of plan.required) policy[name] = map.required(name, floats);
  for (const name of plan.optional) optionally(policy, name, map.optional(name, floats));
  return {
    path: map.path,
    targets,
    weightsPath: map.pathOf(mask ? "mask" : "weights"),
    weights: mask ?? map.optional("weights", either),
    policyPath: map.path,
    policy,
  };
}

/** `loss_inputs`: typed members per loss, dtypes as `D_TYPE_…`. */
function typedInputs(map: Fields, config: NativeConfig, plan: RowPlan): Inputs {
  const rows = tensor(WIRE_DTYPES, numbers);
  const targets = map.required(
    "target_tokens",
    tensor(WIRE_DTYPES, () => tokens(config.vocabulary, true)),
  );
  const policy: Row["policy"] = {};
  let policyPath = map.path;
  if (plan.member !== undefined) {
    const member = map.required(plan.member, fields);
    policyPath = member.path;
    for (const name of plan.required) policy[name] = member.required(name, rows);
    for (const name of plan.optional) optionally(policy, name, member.optional(name, rows));
  }
  return {
    path: map.path,
    targets,
    weightsPath: map.pathOf("weights"),
    weights: map.optional("weights", rows),
    policyPath,
    policy,
  };
}

function optionally(policy: Row["policy"], name: PolicyRow, row: Float64Array | undefined): void {
  if (row !== undefined) policy[name] = row;
}

/** One tensor: flat `data` of one of `dtypes`, and if it has a `shape`, one dimension. */
function tensor<D extends Dtype, T extends { readonly length: number }>(
  dtypes: readonly D[],
  read: (dtype: D) => Read<T>,
): Read<T> {
  return (value, path) => {
    const members = fields(value, path);
    for (const name of ["sparse_crow_indices", "sparse_col_indices"]) {
      if (members.has(name)) throw invalid(members.pathOf(name), "sparse tensors are not supported");
    }
    const wire = (dtypes as readonly string[]).includes("D_TYPE_UNSPECIFIED");
    const dtype = wire
      ? (members.optional("dtype", oneOf(dtypes)) ?? dtypes[0]!)
      : members.required("dtype", oneOf(dtypes));
    const data = members.required("data", read(dtype));
    const shape = members.optional("shape", list(whole(0)));
    if (shape !== undefined && (shape.length !== 1 || shape[0] !== data.length)) {
      throw invalid(members.pathOf("shape"), `expected [${data.length}], got [${shape}]`);
    }
    return data;
  };
}

/** The `gradients` of a custom pass: one row per sample, as long as its targets. */
export function gradients(batch: NativeBatch): Read<Float64Array> {
  const row: Read<Float64Array> = tensor(WIRE_DTYPES, numbers);
  return (value, path) => {
    const count = batch.offsets.length - 1;
    const given = array(value, path).length;
    if (given !== count) throw invalid(path, `expected ${count} rows, one per sample, got ${given}`);
    const rows = list(row)(value, path);
    for (const [i, { length }] of rows.entries()) {
      const expected = batch.offsets[i + 1]! - batch.offsets[i]!;
      if (length !== expected) {
        throw invalid(`${path}[${i}].data`, `expected ${expected} values, one per target, got ${length}`);
      }
    }
    return join(rows, Float64Array);
  };
}
