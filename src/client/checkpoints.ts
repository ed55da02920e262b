// Checkpoints of all sessions: listing, looking at and downloading them.

import type { Answer } from "./answer.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";
import { type DownloadProgress, downloadFile, type RemoteFile } from "./download.ts";
import { choice, integer, type Rules, text } from "./fields.ts";
import { List, type ListOptions } from "./pages.ts";
import { type Checkpoint, checkpoint } from "./results.ts";
import { pathSegment } from "./transport.ts";

/** A checkpoint with where it comes from. */
export interface CheckpointInfo extends Checkpoint {
  readonly type: "TRAINING" | "INFERENCE" | (string & {});
  readonly baseModel: string;
  readonly sessionId: string;
  readonly loraRank: number | undefined;
}

export interface CheckpointListOptions extends ListOptions {
  readonly type?: "training" | "inference" | undefined;
  readonly sessionId?: string | undefined;
  /** The exact name. */
  readonly baseModel?: string | undefined;
}

export interface DownloadOptions extends CallOptions {
  /** Folder for the files; made if missing. */
  readonly folder: string;
  /** `merged` (default) for the weights of the whole model, `adapter` for those of the LoRA adapter alone. */
  readonly variant?: "merged" | "adapter" | undefined;
  /** Called at most ten times a second and at the end of each file. */
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

const LIST: Rules = {
  after: text,
  baseModel: text,
  limit: integer(1, 100),
  sessionId: text,
  type: choice("CHECKPOINT_TYPE_", ["training", "inference"]),
};

const VARIANT = choice("CHECKPOINT_VARIANT_", ["merged", "adapter"]);
const PATH = "/rl/checkpoints";

export class CheckpointsApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  async get(id: string, options: CallOptions = {}): Promise<CheckpointInfo> {
    const path = `${PATH}/${pathSegment("checkpoints.get.id", id)}`;
    return runCall("checkpoints.get", options, this.#core.timeoutMs, async (call) =>
      checkpointInfo(await this.#core.sender.send({ method: "GET", path }, call)),
    );
  }

  /** All checkpoints of the project, newest first. */
  list(options: CheckpointListOptions = {}): List<CheckpointInfo> {
    return new List(this.#core, "checkpoints.list", PATH, options, LIST, checkpointInfo);
  }

  /**
   * Downloads the files of an inference checkpoint and gives their paths. A file appears under its name when it is whole;
   * until then it is `NAME.part`, from which a later call goes on. Waits without limit by default.
   *
   * @throws {DownloadError} if a file name is not a plain one, or a size is not what was promised.
   */
  async download(id: string, options: DownloadOptions): Promise<string[]> {
    const { folder, variant = "merged", onProgress } = options;
    const query = `variant=${VARIANT("checkpoints.download.variant", variant)}`;
    const request = {
      method: "GET",
      path: `${PATH}/${pathSegment("checkpoints.download.id", id)}/download?${query}`,
    } as const;
    const run = async (call: Call) => {
      const files = async () =>
        (await this.#core.sender.send(request, call)).at("data").items().map(remoteFile);
      const paths: string[] = [];
      for (const [index, file] of (await files()).entries()) {
        const again = async () => (await files())[index] ?? file;
        paths.push(await downloadFile(this.#core.sender, call, folder, file, again, onProgress));
      }
      return paths;
    };
    return runCall("checkpoints.download", options, Infinity, run, ["folder", "variant", "onProgress"]);
  }
}

function remoteFile(given: Answer): RemoteFile {
  return {
    name: given.at("filename").string(),
    bytes: given.at("size").integer(),
    url: given.at("url").string(),
  };
}

function checkpointInfo(given: Answer): CheckpointInfo {
  return {
    ...checkpoint(given),
    type: given.at("type").word("CHECKPOINT_TYPE_"),
    baseModel: given.at("base_model").string(),
    sessionId: given.at("session_id").string(),
    loraRank: given.maybe("lora_rank")?.integer(),
  };
}
