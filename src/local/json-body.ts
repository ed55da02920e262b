// The body of a request.
import { Problem } from "./problem.ts";

/** A request's body: its bytes, which tell repeats apart, and what they say. */
export interface JsonBody {
  readonly bytes: Buffer;
  /** Undefined where the body is empty. */
  readonly value: unknown;
}

/**
 * @throws {Problem} 400 if the bytes are no JSON.
 */
export function parseBody(bytes: Buffer): JsonBody {
  if (bytes.length === 0) return { bytes, value: undefined };
  try {
    return { bytes, value: JSON.parse(bytes.toString("utf8")) };
  } catch (error) {
    throw new Problem(400, "not_json", `body: expected JSON: ${(error as Error).message}`);
  }
}
