// Losses, ops and advantages against PyTorch's values, with every executor and precision.
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/engine/engine.ts";
import { ADVANTAGES } from "../../src/verify/advantages.ts";
import type { LossCase } from "../../src/verify/cases.ts";
import { READY_LOSSES } from "../../src/verify/ready-losses.ts";
import { verifyCase } from "../../src/verify/verify.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { cases } from "./cases.ts";

const identifiers = (kind: string, of: (golden: never) => string) =>
  new Set(cases.filter((golden) => golden.kind === kind).map((golden) => of(golden as never)));

test("there are cases of every loss and estimator, and one of these for every case", () => {
  expect(cases).toHaveLength(375);
  expect(identifiers("loss", ({ loss }: { loss: string }) => loss)).toEqual(
    new Set(Object.keys(READY_LOSSES)),
  );
  expect(identifiers("advantage", ({ advantage }: { advantage: string }) => advantage)).toEqual(
    new Set(Object.keys(ADVANTAGES)),
  );
  expect(identifiers("op", ({ op }: { op: string }) => op).size).toBeGreaterThan(25);
});

const engines = useEngines();

describe.each(EXECUTIONS)("$executor in $precision", ({ executor, precision }) => {
  test.each(cases.map((golden) => [golden.name, golden] as const))("%s", async (_, golden) => {
    expect(await verifyCase(golden, engines[executor], precision)).toEqual([]);
  });
});

test("what differs is told: where, by how much, and how often", async () => {
  using engine = await createEngine({ device: "cpu" });
  const golden = cases.find(({ name }) => name === "dpo_sigmoid--basic") as LossCase;
  const gradients = golden.expected.gradients.map((row) => row.map((x) => 2 * x));
  const wrong = { ...golden, expected: { loss: golden.expected.loss + 1, gradients } };
  const found = await verifyCase(wrong, engine, "float32");
  expect(found).toHaveLength(2);
  expect(found[0]).toMatch(/^loss: expected \S+, got \S+, off by 1\.00e\+0 where \S+ is allowed$/);
  expect(found[1]).toMatch(/^gradient of sample \d+, position \d+: expected .*; \d+ of \d+ numbers are off$/);

  const refused = cases.find(({ tags }) => tags.includes("nonfinite")) as LossCase;
  const finite = { ...refused, expected: { ...refused.expected, loss: 1 } };
  await expect(verifyCase(finite, engine, "float32")).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
  const sent = { ...golden, expected: { ...golden.expected, loss: Number.NaN } };
  expect(await verifyCase(sent, engine, "float32")).toEqual([
    "expected to be refused with ERR_NON_FINITE, got a loss and gradients",
  ]);
});
