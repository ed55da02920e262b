// Where a run stands, on disk, so that it can be resumed after it was killed.
import { readFile } from "node:fs/promises";
import type { CallOptions } from "../client/call.ts";
import type { Session } from "../client/session.ts";
import { describe, InputError } from "../errors.ts";
import { writeWhole } from "./files.ts";

/** What is written of a run. */
export interface RunState<Kept = unknown> {
  /** Steps that are done. */
  readonly step: number;
  /** The training checkpoint after them: start a session with `resumeFromCheckpointId`. */
  readonly checkpointId: string;
  /** What the loop wants to have again, such as its curve; anything that JSON can hold. */
  readonly kept: Kept;
}

/**
 * Saves weights and optimizer as a training checkpoint, then where the run stands. A crash between the two leaves the state
 * before: the run then goes on from the checkpoint before.
 *
 * @throws {TokengradError} of the client, if the checkpoint fails.
 */
export async function saveRun<Kept>(
  path: string,
  session: Session,
  { step, kept }: Omit<RunState<Kept>, "checkpointId">,
  options: CallOptions = {},
): Promise<RunState<Kept>> {
  const { checkpoint } = await session.trainingCheckpoint(options);
  const state = { step, checkpointId: checkpoint.id, kept };
  await writeWhole(path, `${JSON.stringify(state)}\n`);
  return state;
}

/**
 * Reads where a run stands; undefined if it has not been saved yet.
 *
 * @throws {InputError} if the file is something else.
 */
export async function loadRun<Kept>(path: string): Promise<RunState<Kept> | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new InputError(path, `expected a readable file, got ${(error as Error).message}`);
  }
  let state: unknown;
  try {
    state = JSON.parse(text);
  } catch (error) {
    throw new InputError(path, `expected the state of a run, got ${(error as Error).message}`);
  }
  const { step, checkpointId } = (state ?? {}) as Partial<RunState>;
  if (!Number.isSafeInteger(step) || typeof checkpointId !== "string") {
    throw new InputError(
      path,
      `expected the state of a run, with step and checkpointId, got ${describe(state)}`,
    );
  }
  return state as RunState<Kept>;
}
