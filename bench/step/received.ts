// What a custom pass has brought to the trainer: checked, and its gradients taken out.
import { toBfloat16 } from "../number-text.ts";
import type { Workload } from "../workload.ts";

/** The parts of a body that are looked at; the two wire formats differ in the name of the inputs. */
interface CustomBody {
  readonly samples: readonly {
    readonly model_input: { readonly chunks: readonly { readonly encoded_text: { tokens: number[] } }[] };
    readonly loss_inputs?: LossInputs;
    readonly loss_fn_inputs?: LossInputs;
  }[];
  readonly gradients: readonly { readonly data: number[]; readonly dtype?: string }[];
}

interface LossInputs {
  readonly target_tokens: { readonly data: number[] };
  readonly weights: { readonly data: number[] };
}

export interface Received {
  /** In full rows, as the trainer reads them in their dtype. */
  readonly gradients: Float32Array;
  /** Of a trained position, with its comma. */
  readonly bytesPerGradient: number;
}

/** @throws if the body has other samples than the batch, or not one gradient for each of its positions. */
export function received(
  who: string,
  text: string,
  workload: Workload,
  tokens: readonly Int32Array[],
): Received {
  const { samples, gradients } = JSON.parse(text) as CustomBody;
  same(`${who}: samples`, [samples.length, gradients.length], [tokens.length, tokens.length]);
  for (const [sample, { model_input, loss_inputs, loss_fn_inputs }] of samples.entries()) {
    const row = tokens[sample]!;
    const inputs = loss_inputs ?? loss_fn_inputs!;
    const given = model_input.chunks.flatMap(({ encoded_text }) => encoded_text.tokens);
    same(`${who}: tokens of sample ${sample}`, given, row.subarray(0, -1));
    same(`${who}: targets of sample ${sample}`, inputs.target_tokens.data, row.subarray(1));
    same(`${who}: weights of sample ${sample}`, inputs.weights.data, workload.weights[sample]!);
  }
  const rows = gradients.map(({ data, dtype }, sample) => {
    same(`${who}: gradients of sample ${sample}`, [data.length], [workload.weights[sample]!.length]);
    return dtype === "D_TYPE_BFLOAT16" ? Float32Array.from(data, toBfloat16) : Float32Array.from(data);
  });
  const all = new Float32Array(rows.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const row of rows) {
    all.set(row, at);
    at += row.length;
  }
  return { gradients: all, bytesPerGradient: bytesPerGradient(text, workload) };
}

function same(what: string, got: ArrayLike<number>, expected: ArrayLike<number>): void {
  if (got.length !== expected.length)
    throw new Error(`${what}: expected ${expected.length}, got ${got.length}`);
  for (let i = 0; i < expected.length; i++) {
    if (got[i] !== expected[i]) {
      throw new Error(`${what}: expected ${expected[i]} at position ${i}, got ${got[i]}`);
    }
  }
}

function bytesPerGradient(text: string, { weights }: Workload): number {
  const arrays = text.slice(text.indexOf('"gradients"')).matchAll(/"data":\s*\[([^\]]*)\]/g);
  let bytes = 0;
  let trained = 0;
  for (const row of weights) {
    const numbers = arrays.next().value![1]!.split(",");
    for (let position = 0; position < row.length; position++) {
      if (row[position] === 0) continue;
      bytes += numbers[position]!.trim().length + 1;
      trained++;
    }
  }
  return bytes / trained;
}
