// Reads the golden cases: values that PyTorch computed in float64 from float32 inputs.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Row = readonly number[];
export type Rows = readonly Row[];

interface Case {
  readonly name: string;
  readonly tags: readonly string[];
}

export interface LossCase extends Case {
  readonly kind: "loss";
  readonly loss: string;
  /** Numbers, names, flags, lists or null, by the names of the public systems. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly inputs: {
    readonly logp: Rows;
    readonly mask: Rows;
    readonly old_logp?: Rows;
    readonly rollout_logp?: Rows;
    readonly ref_logp?: Rows;
    readonly teacher_logp?: Rows;
    readonly advantages?: Row;
    readonly token_advantages?: Rows;
    readonly pairs?: Rows;
    readonly triples?: Rows;
    readonly labels?: readonly boolean[];
    readonly kl_logp?: Row;
    readonly kl_ref_logp?: Row;
    readonly rewards?: Row;
    readonly v_star?: Row;
    readonly win_probability?: Row;
    readonly model_chosen?: readonly boolean[];
  };
  readonly expected: { readonly loss: number; readonly gradients: Rows };
}

export interface OpCase extends Case {
  readonly kind: "op";
  readonly op: string;
  readonly params: {
    readonly min?: number;
    readonly max?: number;
    readonly gamma?: number;
    readonly correction?: 0 | 1;
    readonly lengths?: Row;
    readonly index?: Row;
    readonly expression?: string;
  };
  readonly inputs: { readonly x: Row; readonly y?: Row };
  readonly upstream: Row;
  readonly expected: { readonly value: Row; readonly gradients: { readonly x: Row; readonly y?: Row } };
}

const SPECIAL: Record<string, number> = { NaN: Number.NaN, Infinity: Infinity, "-Infinity": -Infinity };

/** Inputs are float32 values printed in decimals: the number that is meant is the float32 nearest to the text. */
const float32Inputs = <C extends LossCase | OpCase>(golden: C): C => ({
  ...golden,
  inputs: JSON.parse(JSON.stringify(golden.inputs), (_, value) =>
    typeof value === "number" ? Math.fround(value) : value,
  ),
});

const folder = join(import.meta.dirname, "cases");
const all = readdirSync(folder)
  .map((file) => readFileSync(join(folder, file), "utf8"))
  .map((text) => float32Inputs(JSON.parse(text, (_, value) => SPECIAL[value] ?? value) as LossCase | OpCase));

export const lossCases = all.filter((golden) => golden.kind === "loss");
export const opCases = all.filter((golden) => golden.kind === "op");
