// Reads the golden cases: values that PyTorch computed in float64 from float32 inputs.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

type Row = readonly number[];

export interface LossCase {
  readonly name: string;
  readonly loss: string;
  readonly params: Readonly<Record<string, number | string | boolean | null | undefined>>;
  readonly tags: readonly string[];
  readonly inputs: {
    readonly logp: readonly Row[];
    readonly mask: readonly Row[];
    readonly ref_logp?: readonly Row[];
    readonly advantages?: Row;
    readonly pairs?: readonly (readonly [number, number])[];
  };
  readonly expected: { readonly loss: number; readonly gradients: readonly Row[] };
}

const SPECIAL: Record<string, number> = { NaN: Number.NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** Inputs are float32 values printed in decimals: the number that is meant is the float32 nearest to the text. */
const float32Inputs = (golden: LossCase): LossCase => ({
  ...golden,
  inputs: JSON.parse(JSON.stringify(golden.inputs), (_, value) =>
    typeof value === "number" ? Math.fround(value) : value,
  ),
});

/** The cases of one loss. */
export function lossCases(loss: string): LossCase[] {
  const folder = join(import.meta.dirname, "cases");
  return readdirSync(folder)
    .filter((file) => file.startsWith(`${loss}--`))
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .map((text) => float32Inputs(JSON.parse(text, (_, value) => SPECIAL[value] ?? value)));
}
