// A contestant of the benchmark of steps: a training loop with tokengrad.
//
//   turn MILLISECONDS    steps until so much time has passed, at least one
//   hold                 the longest time that a step holds the event loop, as a `Hold`
//   memory               what this process holds
//
// Run as `tokengrad.ts THREADS WORKLOAD LOSS URL DTYPE` in the folder of the batches.
import {
  Client,
  computeCustomForwardBackward,
  createEngine,
  type Gradients,
  type Tracer,
} from "../../src/index.ts";
import { readBatch } from "../batch.ts";
import { CASES, type Case, type CaseName } from "../cases.ts";
import { serve } from "../child.ts";
import { longestHold } from "../hold.ts";
import type { WorkloadName } from "../workload.ts";
import { residentNow, residentPeak } from "./resident.ts";
import type { Memory, StepTimes, Turn } from "./times.ts";

const [threads, name, caseName, baseURL, dtype] = process.argv.slice(2) as [
  string,
  WorkloadName,
  CaseName,
  string,
  "float32" | "bfloat16",
];

/** Milliseconds of the client's operations, by their kinds. */
class Stopwatch implements Tracer {
  readonly #ms = new Map<string, number>();

  startActiveSpan: Tracer["startActiveSpan"] = (span, _options, work) => {
    const began = performance.now();
    return work({
      setAttribute: () => {},
      setStatus: () => {},
      recordException: () => {},
      end: () => this.#ms.set(span, performance.now() - began),
    });
  };

  of(kind: string): number {
    return this.#ms.get(`tokengrad ${kind}`)!;
  }
}

const { workload, tokens } = await readBatch(name);
const samples = tokens.map((row, sample) => ({
  tokens: row.subarray(0, -1),
  targets: row.subarray(1),
  weights: workload.weights[sample]!,
}));
const { define, groups, inputs }: Case = CASES[caseName];
const loss = define();
const stopwatch = new Stopwatch();
const client = new Client({ baseURL, apiKey: "bench", tracer: stopwatch });
const resources = await client.modelResources.start({ baseModel: "instant" });
const session = await client.sessions.start({ modelResourcesId: resources.id });
const engine = await createEngine({ device: "cpu", threads: Number(threads) });
const given = { engine, groups, inputs: inputs(workload), dtype };
let into: Gradients<typeof dtype> | undefined;

async function step(): Promise<{ loss: number; times: StepTimes }> {
  const began = performance.now();
  const result = await computeCustomForwardBackward(session, samples, loss, { ...given, into });
  await session.optimStep({ adam: { learningRate: 1e-4 } });
  const whole = performance.now() - began;
  into = result.gradients;
  const forward = stopwatch.of("forward-backward");
  const custom = stopwatch.of("custom-forward-backward");
  const optim = stopwatch.of("optim-step");
  const times = { forward, loss: whole - forward - custom - optim, custom, optim, whole };
  return { loss: result.loss, times };
}

const before = residentNow();

await serve(`Node ${process.version}`, {
  turn: async (ms): Promise<Turn> => {
    const began = performance.now();
    const steps = [await step()];
    while (performance.now() - began < Number(ms)) steps.push(await step());
    return { loss: steps.at(-1)!.loss, times: steps.map(({ times }) => times) };
  },
  hold: () => longestHold(step),
  memory: (): Memory => ({ before, peak: residentPeak() }),
});
engine.dispose();
await client.close();
