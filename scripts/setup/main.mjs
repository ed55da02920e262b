// The command line of set-up: which steps to do.
import { command, ROOT } from "./command.mjs";
import { SetupFailure } from "./failure.mjs";
import { say } from "./report.mjs";
import { STEPS, setUp } from "./steps.mjs";

await command("set-up", async () => {
  const steps = process.argv.slice(2).map((name) => {
    const step = STEPS.find((known) => known === name);
    if (!step) throw new SetupFailure(`${name} is no step; expected some of ${STEPS.join(", ")}`);
    return step;
  });
  await setUp(ROOT, steps.length > 0 ? steps : STEPS);
  if (process.env.npm_lifecycle_event === "setup") say("all is ready");
});
