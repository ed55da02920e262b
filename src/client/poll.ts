// Asks for the result of an operation until it is there.

import { Answer } from "./answer.ts";
import { BadRequestError } from "./api-errors.ts";
import type { Call } from "./call.ts";
import type { SessionContext } from "./core.ts";
import { OperationFailedError } from "./operation-errors.ts";
import { isTransient } from "./retry.ts";
import type { Request } from "./sender.ts";
import type { OperationKind } from "./submission.ts";
import type { Accepted, Operation } from "./submit.ts";
import { pathSegment } from "./transport.ts";

const FIRST_PAUSE_MS = 10;
const PAUSE_GROWTH = 1.5;
/** A proxy may answer with 400 and nothing else while it restarts; in a row, more than these are meant. */
const UNEXPLAINED_REFUSALS = 3;

/** The output of the operation. The first look comes at once, unless the answer to its submission says it all. */
export async function resultOf(
  { core, path }: SessionContext,
  { operation, answer, logprobs }: Accepted,
  call: Call,
): Promise<Answer> {
  const submitted = outputOf(answer, operation);
  if (submitted !== undefined) return submitted;
  const request = { ...operationRequest(path, operation.kind, operation.id), logprobs };
  let longest = FIRST_PAUSE_MS;
  let unexplained = 0;
  for (let failures = 0; ; ) {
    let leastMs = 0;
    try {
      const output = outputOf(await core.sender.attempt(request, call, failures), operation);
      if (output !== undefined) return output;
      failures = 0;
      unexplained = 0;
    } catch (error) {
      call.check();
      failures++;
      unexplained = isUnexplained(error) ? unexplained + 1 : 0;
      const passing = isTransient(error) || (unexplained > 0 && unexplained <= UNEXPLAINED_REFUSALS);
      if (!passing) throw error;
      leastMs = core.sender.failed(error, `GET ${request.path}`, call, failures);
    }
    await call.pause(Math.max(leastMs, longest * (0.5 + Math.random() / 2)));
    longest = Math.min(longest * PAUSE_GROWTH, core.pollIntervalMs);
  }
}

/** The request that looks at an operation. */
export function operationRequest(path: string, kind: OperationKind, id: string): Request {
  return { method: "GET", path: `${path}/operations/${kind}/${pathSegment("operation.id", id)}` };
}

function isUnexplained(error: unknown): boolean {
  return error instanceof BadRequestError && !error.explained;
}

/** The output of a completed operation, undefined while it goes on; throws where it failed. */
function outputOf(answer: Answer, { id, kind }: Operation): Answer | undefined {
  const status = answer.at("status");
  switch (status.word<string>("TRAINING_OPERATION_STATUS_")) {
    case "COMPLETED":
      return outputMember(answer, kind);
    case "FAILED": {
      const error = answer.maybe("error");
      throw new OperationFailedError(
        kind,
        id,
        error?.maybe("code")?.string(),
        error?.maybe("message")?.string(),
      );
    }
    case "UNSPECIFIED":
    case "PENDING":
    case "RUNNING":
      return undefined;
    default:
      return status.fail("the status of an operation");
  }
}

/** A custom pass has nothing to say, so only its output may be missing. */
function outputMember(answer: Answer, kind: OperationKind): Answer {
  if (kind !== "custom-forward-backward") return answer.at("output");
  return answer.maybe("output") ?? new Answer({}, "output", answer.request);
}
