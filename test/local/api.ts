// A bare HTTP client of the local trainer, and samples in both wire formats.
import { randomUUID } from "node:crypto";
import { type LocalTrainer, type LocalTrainerOptions, startLocalTrainer } from "../../src/local/index.ts";

export const MODEL = { layers: 2, width: 32, heads: 2, context: 64 } as const;

// biome-ignore lint/suspicious/noExplicitAny: tests read answers of many shapes
type Json = any;

export interface Answer {
  readonly status: number;
  readonly body: Json;
}

export class Api {
  readonly trainer: LocalTrainer;

  constructor(trainer: LocalTrainer) {
    this.trainer = trainer;
  }

  static async start(options: LocalTrainerOptions = {}): Promise<Api> {
    return new Api(await startLocalTrainer({ model: MODEL, ...options }));
  }

  /** `body` is sent as it is if it is a string, else as JSON. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(`${this.trainer.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.trainer.apiKey}`,
        "content-type": "application/json",
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return { status: response.status, body: JSON.parse(await response.text()) };
  }

  /** The body of an answer that must be a success. */
  async ok(method: string, path: string, body?: unknown): Promise<Json> {
    const answer = await this.call(method, path, body);
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body;
  }

  async session(options: object = {}, resources: object = {}): Promise<string> {
    const { id } = await this.ok("POST", "/v1/rl/model-resources", {
      base_model: "local/tiny",
      ...resources,
    });
    const created = { model_resources_id: id, ...options };
    return (await this.ok("POST", "/v1/rl/training-sessions", created)).id;
  }

  submit(session: string, kind: string, body?: unknown, key: string = randomUUID()): Promise<Answer> {
    const path = `/v1/rl/training-sessions/${session}/operations/${kind}`;
    return this.call("POST", path, body, { "idempotency-key": key });
  }

  /** Polls an operation to its end. */
  async finish(session: string, kind: string, id: string): Promise<Json> {
    for (;;) {
      const path = `/v1/rl/training-sessions/${session}/operations/${kind}/${id}`;
      const operation = await this.ok("GET", path);
      if (/COMPLETED|FAILED/.test(operation.status)) return operation;
    }
  }

  /** Submits an operation and gives its output. */
  async run(session: string, kind: string, body?: unknown): Promise<Json> {
    const submitted = await this.submit(session, kind, body);
    if (submitted.status !== 200) throw new Error(`${kind}: ${JSON.stringify(submitted.body)}`);
    const operation = await this.finish(session, kind, submitted.body.id);
    if (operation.error) throw new Error(JSON.stringify(operation.error));
    return operation.output;
  }
}

export interface Row {
  readonly tokens: readonly number[];
  readonly targets: readonly number[];
  readonly weights: readonly number[];
}

/** A row that learns `text` from its third byte on. */
export function rowOf(text: string): Row {
  const bytes = [...Buffer.from(text)];
  return {
    tokens: bytes.slice(0, -1),
    targets: bytes.slice(1),
    weights: bytes.slice(1).map((_, t) => (t < 2 ? 0 : 1)),
  };
}

const modelInput = (tokens: readonly unknown[]) => ({ chunks: [{ encoded_text: { tokens } }] });

/** The format of the current reference: `loss_fn_inputs`. */
export const open = (row: Row, policy: Record<string, readonly number[]> = {}) => ({
  model_input: modelInput(row.tokens),
  loss_fn_inputs: {
    target_tokens: { data: row.targets, dtype: "int64" },
    weights: { data: row.weights, dtype: "float32" },
    ...Object.fromEntries(Object.entries(policy).map(([name, data]) => [name, { data, dtype: "float32" }])),
  },
});

/** The older format: `loss_inputs`. Integers are strings and the row comes in two chunks. */
export const typed = (row: Row, policy: Record<string, object> = {}) => ({
  model_input: {
    chunks: [
      { encoded_text: { tokens: row.tokens.slice(0, 3).map(String) } },
      { encoded_text: { tokens: row.tokens.slice(3) } },
    ],
  },
  loss_inputs: {
    target_tokens: { data: row.targets.map(String), dtype: "D_TYPE_INT64" },
    weights: { data: row.weights, dtype: "D_TYPE_FLOAT32" },
    ...policy,
  },
});

export const CROSS_ENTROPY = { type: "LOSS_TYPE_CROSS_ENTROPY" };

export const forward = (samples: readonly object[]) => ({
  loss: CROSS_ENTROPY,
  samples,
  forward_only: true,
  return_loss_fn_outputs: true,
});

export const prompt = (text: string, params: object = {}, more: object = {}) => ({
  model_inputs: [modelInput([...Buffer.from(text)])],
  sampling_params: params,
  ...more,
});
