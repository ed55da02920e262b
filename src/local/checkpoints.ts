// Checkpoints on disk: one safetensors file each, which says everything about itself.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { NativeConfig, NativeState, TrainerAddon } from "./binding.ts";
import { missing } from "./problem.ts";
import { CheckpointError, readMetadata, readTensors, type Tensor, writeTensors } from "./safetensors.ts";

type CheckpointType = "CHECKPOINT_TYPE_TRAINING" | "CHECKPOINT_TYPE_INFERENCE";

/** What is known of a checkpoint without its tensors. */
export interface Checkpoint {
  readonly id: string;
  readonly type: CheckpointType;
  readonly baseModel: string;
  readonly sessionId: string;
  readonly step: number;
  /** RFC 3339. */
  readonly createdAt: string;
}

/** Names of the moments in the file begin so; the parameters bear their own names. */
const PREFIXES = ["", "adam.first_moment.", "adam.second_moment."] as const;

const ID = /^[0-9a-f-]{36}$/;

const FORMAT = "tokengrad-checkpoint-1";

export class CheckpointStore {
  readonly #folder: string;
  readonly #trainer: TrainerAddon;
  readonly #config: NativeConfig;
  readonly #known = new Map<string, Checkpoint>();

  /** `folder` must exist. */
  constructor(folder: string, trainer: TrainerAddon, config: NativeConfig) {
    this.#folder = folder;
    this.#trainer = trainer;
    this.#config = config;
  }

  /** Finds the checkpoints of earlier runs. What is no checkpoint is passed over. */
  async open(): Promise<void> {
    const found: Checkpoint[] = [];
    for (const file of await readdir(this.#folder)) {
      const id = file.replace(/\.safetensors$/, "");
      if (!ID.test(id) || id === file) continue;
      try {
        found.push(described(id, await readMetadata(this.#path(id)), this.#path(id)));
      } catch (error) {
        if (!(error instanceof CheckpointError)) throw error;
      }
    }
    found.sort((a, b) => a.createdAt.localeCompare(b.createdAt));
    for (const checkpoint of found) this.#known.set(checkpoint.id, checkpoint);
  }

  /** Newest first. */
  all(): Checkpoint[] {
    return [...this.#known.values()].reverse();
  }

  /**
   * @throws {Problem} 404 if there is none.
   */
  get(id: string): Checkpoint {
    const checkpoint = this.#known.get(id);
    if (checkpoint === undefined) throw missing("checkpoint", id);
    return checkpoint;
  }

  /** Where the checkpoint lies. */
  async file(id: string): Promise<{ readonly path: string; readonly size: number }> {
    const path = this.#path(id);
    return { path, size: (await stat(path)).size };
  }

  async save(baseModel: string, sessionId: string, state: NativeState): Promise<Checkpoint> {
    const checkpoint: Checkpoint = {
      id: randomUUID(),
      type: state.parts.length > 1 ? "CHECKPOINT_TYPE_TRAINING" : "CHECKPOINT_TYPE_INFERENCE",
      baseModel,
      sessionId,
      step: state.step,
      createdAt: new Date().toISOString(),
    };
    const { id, step, ...names } = checkpoint;
    await writeTensors(this.#path(id), {
      tensors: state.parts.flatMap((part, i) => this.#split(PREFIXES[i]!, part)),
      metadata: { format: FORMAT, ...names, step: String(step), model: this.#model() },
    });
    this.#known.set(id, checkpoint);
    return checkpoint;
  }

  /** Whether there is a checkpoint of this id. */
  has(id: string): boolean {
    return ID.test(id) && existsSync(this.#path(id));
  }

  /**
   * @throws {CheckpointError} if the file is broken or of a model of other sizes.
   */
  async load(id: string): Promise<{ readonly checkpoint: Checkpoint; readonly state: NativeState }> {
    const path = this.#path(id);
    const { tensors, metadata } = await readTensors(path);
    const checkpoint = described(id, metadata, path);
    const { model } = metadata;
    if (model !== this.#model()) {
      throw new CheckpointError(path, `expected a model of sizes ${this.#model()}, got ${model}`);
    }
    const named = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    const prefixes = checkpoint.type === "CHECKPOINT_TYPE_TRAINING" ? PREFIXES : PREFIXES.slice(0, 1);
    const parts = prefixes.map((prefix) => this.#join(prefix, named, path));
    return { checkpoint, state: { step: checkpoint.step, parts } };
  }

  #path(id: string): string {
    return join(this.#folder, `${id}.safetensors`);
  }

  /** What must be equal for weights to fit. Rotary positions have no weights, so the context is not part of it. */
  #model(): string {
    const { layers, width, heads, vocabulary, precision } = this.#config;
    return JSON.stringify({ layers, width, heads, vocabulary, precision });
  }

  #tensors(prefix: string): Omit<Tensor, "bytes">[] {
    const dtype = this.#config.precision === "float32" ? "F32" : "F64";
    return this.#trainer
      .parameters(this.#config)
      .map(({ name, shape }) => ({ name: prefix + name, dtype, shape }));
  }

  #split(prefix: string, part: Uint8Array): Tensor[] {
    let offset = 0;
    return this.#tensors(prefix).map((tensor) => {
      const begin = offset;
      offset += byteLength(tensor);
      return { ...tensor, bytes: part.subarray(begin, offset) };
    });
  }

  #join(prefix: string, named: ReadonlyMap<string, Tensor>, path: string): Uint8Array {
    const rows = this.#tensors(prefix).map((expected) => {
      const found = named.get(expected.name);
      if (found?.dtype !== expected.dtype || String(found.shape) !== String(expected.shape)) {
        const { name, dtype, shape } = expected;
        throw new CheckpointError(path, `expected a tensor ${name} of ${dtype} [${shape}]`);
      }
      return found.bytes;
    });
    return Buffer.concat(rows);
  }
}

/** What a file's metadata say of its checkpoint. */
function described(id: string, metadata: Readonly<Record<string, string>>, path: string): Checkpoint {
  const { format, type, baseModel, sessionId, createdAt } = metadata;
  const step = Number(metadata.step);
  if (
    format !== FORMAT ||
    !baseModel ||
    !sessionId ||
    !createdAt ||
    !Number.isSafeInteger(step) ||
    step < 0
  ) {
    throw new CheckpointError(path, `expected the metadata of a ${FORMAT}`);
  }
  if (type !== "CHECKPOINT_TYPE_TRAINING" && type !== "CHECKPOINT_TYPE_INFERENCE") {
    throw new CheckpointError(path, `expected a type of checkpoint, got ${type}`);
  }
  return { id, type, baseModel, sessionId, step, createdAt };
}

function byteLength({ dtype, shape }: Omit<Tensor, "bytes">): number {
  return shape.reduce((product, size) => product * size, dtype === "F32" ? 4 : 8);
}
