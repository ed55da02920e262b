// Bodies and results that travel apart: what an operation's request means, and what of its result goes another way.
import { createHash } from "node:crypto";
import { Fields, fields, text } from "./fields.ts";
import { type JsonBody, jsonBody } from "./json-body.ts";
import type { OperationKind, Work } from "./operation.ts";
import { invalid } from "./problem.ts";
import type { Storage } from "./storage.ts";

/** Members that travel apart when a result is large. */
const LARGE_MEMBERS: Partial<Record<OperationKind, string>> = {
  "forward-backward": "loss_fn_outputs",
  sample: "results",
};

const UPLOADS: readonly OperationKind[] = ["forward-backward", "custom-forward-backward", "sample"];

export interface OperationRequest {
  /** The whole body, with the members of its upload. */
  readonly value: unknown;
  /** Tells repeats of the request from other requests. */
  readonly digest: string;
}

/** Reads a request. Its members win over those of the body that stood in for an upload. */
export function operationRequest(
  kind: OperationKind,
  body: JsonBody | undefined,
  session: string,
  storage: Storage,
): OperationRequest {
  const value = body?.value;
  const inline = value === undefined ? undefined : fields(value, "");
  if (inline === undefined || !inline.has("payload_id")) {
    return { value, digest: digestOf(kind, body?.bytes ?? "") };
  }
  if (!UPLOADS.includes(kind)) throw invalid("payload_id", `${kind} takes no uploaded payloads`);
  const { bytes, digest } = storage.uploaded(session, inline.required("payload_id", text()));
  const { payload_id: _, ...kept } = value as Record<string, unknown>;
  const uploaded = new Fields(jsonBody(bytes).value, "payload");
  const members = Object.fromEntries(
    uploaded.names().map((name) => [name, uploaded.required(name, (v) => v)]),
  );
  // Another upload of the same content is the same request.
  return { value: { ...kept, ...members }, digest: digestOf(kind, `${JSON.stringify(kept)}\n${digest}`) };
}

function digestOf(kind: OperationKind, content: Buffer | string): string {
  return createHash("sha256").update(kind).update("\n").update(content).digest("hex");
}

/** Work whose result, where it is larger than `inlineBytes`, goes to the storage. */
export function withResultApart(
  kind: OperationKind,
  work: Work,
  session: string,
  storage: Storage,
  inlineBytes: number,
): Work {
  const member = LARGE_MEMBERS[kind];
  if (member === undefined) return work;
  return async () => {
    const make = await work();
    let shortened: object | undefined;
    return () => {
      if (shortened !== undefined) return shortened;
      const output = make() as Record<string, unknown>;
      const { [member]: large, ...small } = output;
      const bytes = Buffer.from(JSON.stringify({ [member]: large }));
      if (bytes.length <= inlineBytes) return output;
      shortened = { ...small, payload_id: storage.keep(session, bytes) };
      return shortened;
    };
  };
}
