// The side channel for large bodies: uploads of requests and downloads of results, by addresses that the API signs.

import { InputError } from "../errors.ts";
import { Answer } from "./answer.ts";
import { ApiError } from "./api-errors.ts";
import type { Body } from "./body.ts";
import type { Call } from "./call.ts";
import type { LogprobsPart } from "./logprobs.ts";
import type { Sender } from "./sender.ts";

/**
 * `"upload"` sends bodies over 512 KiB through the channel, `"inline"` never, `"auto"` where the service has it.
 */
export type PayloadMode = "auto" | "inline" | "upload";

export const PAYLOAD_MODES: readonly PayloadMode[] = ["auto", "inline", "upload"];

/** Larger bodies take the channel. @unit bytes */
export const INLINE_BYTES = 524_288;
/** Arrays of the body that stands in for an uploaded one are cut to this length. */
export const SHORTENED_VALUES = 8;
/** The largest object that storage takes in one piece. @unit bytes */
const LARGEST_BYTES = 5 * 1024 ** 3 - 5 * 1024 ** 2;

const NO_SUCH_ENDPOINT: readonly number[] = [404, 405, 501];
/** Storage refuses an address that has expired; a new one is asked for. */
const EXPIRED = 403;

/** The channel of one session. */
export class PayloadChannel {
  readonly #sender: Sender;
  readonly #path: string;
  #missing = false;

  constructor(sender: Sender, sessionPath: string) {
    this.#sender = sender;
    this.#path = `${sessionPath}/payloads`;
  }

  /** Whether the service was found not to have it. */
  get missing(): boolean {
    return this.#missing;
  }

  /** Uploads a body and gives its id; undefined where the service has no such channel. */
  async upload(body: Body, call: Call, mode: PayloadMode): Promise<string | undefined> {
    if (body.bytes > LARGEST_BYTES) {
      throw new InputError(
        call.name,
        `expected a body of at most ${LARGEST_BYTES} bytes, got ${body.bytes}; use fewer samples`,
      );
    }
    try {
      return await this.#fresh(async () => {
        const request = { method: "POST", path: `${this.#path}/upload-url` } as const;
        const slot = await this.#sender.send(request, call);
        const id = slot.at("payload_id").string();
        await this.#sender.upload(slot.at("upload_url").string(), body, call);
        return id;
      });
    } catch (error) {
      const absent =
        error instanceof ApiError && error.method === "POST" && NO_SUCH_ENDPOINT.includes(error.status);
      if (!absent || mode === "upload") throw error;
      this.#missing = true;
      return undefined;
    }
  }

  /** An output with the members that were moved out of it; the numbers of their rows go to `logprobs`. */
  async resolve(output: Answer, call: Call, logprobs: LogprobsPart | undefined): Promise<Answer> {
    const payload = output.maybe("payload_id");
    if (payload === undefined) return output;
    const id = encodeURIComponent(payload.string());
    const { payload_id: _, ...inline } = output.object();
    return this.#fresh(async () => {
      const request = { method: "POST", path: `${this.#path}/${id}/download-url` } as const;
      const url = (await this.#sender.send(request, call)).at("download_url").string();
      const found = await this.#sender.download(url, `payload ${id}`, call, logprobs);
      return new Answer({ ...inline, ...found.object() }, "output", found.request);
    });
  }

  async #fresh<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const expired =
        error instanceof ApiError && error.status === EXPIRED && !error.url.includes(this.#path);
      if (!expired) throw error;
      return work();
    }
  }
}
