// The demo: four trainings on the local trainer, a table of what they changed, and a picture of their curves.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "../../client/client.ts";
import { createEngine } from "../../engine/engine.ts";
import { startLocalTrainer } from "../../local/index.ts";
import { seededRandom } from "../../training/order.ts";
import { trainBaseModel } from "./base-model.ts";
import { drawCurves } from "./curves.ts";
import { holdOut, readPairs, readText } from "./data.ts";
import { trainOnPreferences } from "./preferences.ts";
import { trainOnRewards } from "./reinforcement.ts";
import type { Figure, Stage } from "./stage.ts";
import { trainOnChosen } from "./supervised.ts";

interface DemoOptions {
  /** JSONL file of preference pairs. */
  readonly data: string;
  /** Text that the base model is trained on. */
  readonly text: string;
  /** Folder for the picture of the curves. */
  readonly out: string;
  readonly seed: number;
}

/** The longest prompt and answer that the local trainer's default model takes. @unit tokens */
const CONTEXT = 256;

/** Runs the demo; gives whether every figure improved. Leaves nothing running, however it ends. */
export async function runDemo(options: DemoOptions, signal: AbortSignal): Promise<boolean> {
  const pairs = holdOut(await readPairs(options.data, CONTEXT));
  const text = await readText(options.text);
  await mkdir(options.out, { recursive: true });
  const trainer = await startLocalTrainer();
  const client = new Client({ baseURL: trainer.url, apiKey: trainer.apiKey });
  try {
    using engine = await createEngine();
    const { device, executor, libtorch } = engine.info;
    console.log(
      `local trainer at ${trainer.url}; engine on ${device}, executor ${executor}, libtorch ${libtorch}\n`,
    );
    const { id } = await client.modelResources.start({ baseModel: trainer.modelName }, { signal });
    const random = seededRandom(options.seed);
    const stage: Stage = { client, engine, modelResourcesId: id, random, signal };

    const base = await trainBaseModel(stage, text);
    const sft = await trainOnChosen(stage, base.checkpointId, pairs.train, pairs.heldOut);
    const dpo = await trainOnPreferences(stage, sft.checkpointId, pairs.train, pairs.heldOut);
    const rl = await trainOnRewards(stage, sft.checkpointId, pairs.train, pairs.heldOut);

    const figures = [base, sft, dpo, rl].map((result) => result.figure);
    console.log(`\n${table(figures)}\n`);
    const picture = join(options.out, "curves.svg");
    await writeFile(
      picture,
      drawCurves([
        { title: "Base model, built-in cross-entropy", unit: "nats per byte", values: base.curve },
        { title: "Regularised SFT", unit: "loss", values: sft.curve },
        { title: "DPO", unit: "loss", values: dpo.curve },
        { title: "Policy gradient", unit: "mean reward", values: rl.curve },
      ]),
    );
    console.log(`curves: ${picture}`);
    return figures.every(improved);
  } finally {
    await client.close();
    await trainer.close();
  }
}

const improved = ({ before, after, better, best }: Figure) =>
  after === best || (better === "lower" ? after < before : after > before);

function verdict(figure: Figure): string {
  if (!improved(figure)) return `did not improve: ${figure.better} is better`;
  return figure.before === figure.best ? "as good as can be" : "improved";
}

function table(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => [
    figure.name,
    figure.before.toFixed(3),
    figure.after.toFixed(3),
    verdict(figure),
  ]);
  return [["", "before", "after", ""], ...rows]
    .map(
      ([name, before, after, remark]) =>
        `${name!.padEnd(24)}${before!.padStart(9)}${after!.padStart(9)}  ${remark}`,
    )
    .join("\n");
}
