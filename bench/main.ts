// The benchmarks: `npm run bench -- --help`.
import { Command } from "commander";
import { lossCommand } from "./loss/command.ts";
import { stepCommand } from "./step/command.ts";
import { wireCommand } from "./wire/command.ts";

await new Command("bench")
  .description("Measures tokengrad against its peers. Answers are compared before anything is timed.")
  .addCommand(lossCommand, { isDefault: true })
  .addCommand(stepCommand)
  .addCommand(wireCommand)
  .parseAsync();
