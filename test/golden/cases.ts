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

/** The cases of one loss. */
export function lossCases(loss: string): LossCase[] {
  const folder = join(import.meta.dirname, "cases");
  return readdirSync(folder)
    .filter((file) => file.startsWith(`${loss}--`))
    .map((file) =>
      JSON.parse(readFileSync(join(folder, file), "utf8"), (_, value) => SPECIAL[value] ?? value),
    );
}
