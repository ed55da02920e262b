// The tables of whole steps.
import { figure, holdFigure, spread, table } from "../table.ts";
import { BFLOAT16, FLOAT32 } from "./contestants.ts";
import { growth, PYTHON, peak, type Row, ratio, whole } from "./rows.ts";
import { PARTS } from "./times.ts";

/** Everyone's times in milliseconds, memory, and bytes on the wire. */
export const stepTable = (rows: readonly Row[]): string =>
  table(
    [
      "loss",
      "workload",
      "contestant",
      "forward",
      "loss and gradients",
      "custom pass",
      "optim-step",
      "whole step",
      "peak, MiB",
      "growth, MiB",
      "bytes a gradient",
      "event loop held",
    ],
    rows.flatMap(({ loss, workload, measured }) =>
      [...measured].map(([title, each]) => [
        loss,
        workload,
        title,
        ...PARTS.map((part) =>
          part === "whole" ? spread(each.times.whole) : figure(each.times[part].median),
        ),
        figure(peak(each)),
        figure(growth(each)),
        figure(each.bytesPerGradient),
        holdFigure(each.hold),
      ]),
    ),
  );

/** How many times as long, and as much memory, each Python path takes. */
export const ratioTable = (rows: readonly Row[]): string =>
  table(
    [
      "loss",
      "workload",
      "gradients",
      ...Object.keys(PYTHON).map((name) => `${name} / ours`),
      ...Object.keys(PYTHON).map((name) => `growth, ours / ${name}`),
    ],
    rows.flatMap((row) =>
      [FLOAT32, BFLOAT16].map((dtype) => [
        row.loss,
        row.workload,
        dtype,
        ...Object.values(PYTHON).map((titles) => figure(ratio(row, titles, [dtype], whole))),
        ...Object.values(PYTHON).map((titles) => figure(ratio(row, [dtype], titles, growth))),
      ]),
    ),
  );
