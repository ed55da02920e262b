// What a loss and its gradients are in float64, and how far an answer may be from that.
import { createBatch } from "../src/engine/batch.ts";
import { createEngine } from "../src/engine/engine.ts";
import type { EngineOptions } from "../src/engine/options.ts";
import type { Loss } from "../src/loss/define.ts";

/** Largest difference from the exact answer, relative to the largest gradient, and to the loss or to 1. */
const TOLERANCE = 2e-5;
/** How far a value moves at most when it is rounded to bfloat16, relative to itself. */
const BFLOAT16_ROUNDING = 2 ** -8;

/** An answer in float64. */
export interface Exact {
  readonly loss: number;
  /** In full rows. */
  readonly gradients: Float64Array;
}

/** What the torch executor answers in float64. */
export async function exactly(
  onTorch: EngineOptions,
  loss: Loss,
  given: Parameters<typeof createBatch>[0],
): Promise<Exact> {
  using engine = await createEngine({ ...onTorch, executor: "torch" });
  const batch = await createBatch({ ...given, precision: "float64" });
  const { loss: value, gradients } = await engine.run(loss, batch, { dtype: "float64" });
  return { loss: value, gradients: new Float64Array(gradients.buffer) };
}

/** Throws unless an answer is near enough to the exact one. */
export function checkAnswer(
  who: string,
  answer: { readonly loss: number; readonly gradients: ArrayLike<number> },
  exact: Exact,
  dtype: "float32" | "bfloat16" = "float32",
): void {
  const { gradients } = exact;
  if (answer.gradients.length !== gradients.length) {
    throw new Error(`${who}: expected ${gradients.length} gradients, got ${answer.gradients.length}`);
  }
  const rounding = dtype === "bfloat16" ? BFLOAT16_ROUNDING : 0;
  const largest = gradients.reduce((most, gradient) => Math.max(most, Math.abs(gradient)), 0);
  let error = Math.abs(answer.loss - exact.loss) / Math.max(1, Math.abs(exact.loss));
  for (let i = 0; i < gradients.length; i++) {
    const difference = Math.abs(answer.gradients[i]! - gradients[i]!) - rounding * Math.abs(gradients[i]!);
    error = Math.max(error, difference / largest);
  }
  if (!(error < TOLERANCE)) throw new Error(`${who}: expected an answer within ${TOLERANCE}, got ${error}`);
}
