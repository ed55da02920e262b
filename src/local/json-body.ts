// The body of a request.
import { Problem } from "./problem.ts";

/** A request's body: its bytes, which tell repeats apart, and what they say. */
export interface JsonBody {
  readonly bytes: Buffer;
  /** Undefined where the body is empty. @throws {Problem} 400 if the bytes are no JSON. */
  readonly value: unknown;
}

/** A body that is parsed when it is asked for: an upload never is. */
export function jsonBody(bytes: Buffer): JsonBody {
  let parsed: { readonly value: unknown } | undefined;
  return {
    bytes,
    get value() {
      parsed ??= { value: parse(bytes) };
      return parsed.value;
    },
  };
}

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw new Problem(400, "not_json", `body: expected JSON: ${(error as Error).message}`);
  }
}
