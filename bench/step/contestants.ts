// Those who run whole steps, each in a process of its own.
import type { CaseName } from "../cases.ts";
import { startNode } from "../child.ts";
import { type Started, startPython } from "../python.ts";
import type { WorkloadName } from "../workload.ts";

export interface Task {
  readonly loss: CaseName;
  readonly workload: WorkloadName;
  /** Where the trainer listens. */
  readonly url: string;
  /** Parent of the workloads' folders. */
  readonly folder: string;
  readonly threads: number;
}

export interface Contestant {
  readonly title: string;
  /** Type of the gradients that it sends. */
  readonly dtype: "float32" | "bfloat16";
  /** Whether it has an event loop, which it could hold. */
  readonly hasLoop: boolean;
  start(task: Task): Promise<Started>;
}

/** The titles, in the order of the tables. */
export const FLOAT32 = "float32";
export const BFLOAT16 = "bfloat16";
export const VENDOR = "vendor's client";
export const GUIDE = "guide's loop";
export const BEST = ["best Python", "best Python, compiled"] as const;

const startOptions = ({ loss, workload, url, folder, threads }: Task, rest: readonly string[]) => ({
  folder,
  threads,
  rest: [workload, loss, url, ...rest],
});

const tokengrad = (title: string, dtype: Contestant["dtype"]): Contestant => ({
  title,
  dtype,
  hasLoop: true,
  start: (task) => startNode("step/tokengrad.ts", startOptions(task, [dtype])),
});

const python = (title: string, script: string, ...rest: string[]): Contestant => ({
  title,
  dtype: "float32",
  hasLoop: false,
  start: (task) => startPython(script, startOptions(task, rest)),
});

export const contestants = (compile: boolean): Contestant[] => [
  tokengrad(FLOAT32, "float32"),
  tokengrad(BFLOAT16, "bfloat16"),
  python(VENDOR, "vendor_step.py"),
  python(GUIDE, "http_step.py", "guide"),
  python(BEST[0], "http_step.py", "packed"),
  ...(compile ? [python(BEST[1], "http_step.py", "compiled")] : []),
];
