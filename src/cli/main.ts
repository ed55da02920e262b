#!/usr/bin/env node
// The command line: one file a command.
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { demoCommand } from "./demo/command.ts";
import { lossesCommand } from "./losses.ts";
import { serveCommand } from "./serve.ts";
import { verifyCommand } from "./verify.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const program = new Command("tokengrad")
  .description("Custom post-training losses in TypeScript, with native gradients")
  .version(version)
  .addCommand(demoCommand())
  .addCommand(serveCommand())
  .addCommand(lossesCommand())
  .addCommand(verifyCommand());

try {
  await program.parseAsync();
} catch (error) {
  process.stderr.write(`tokengrad: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
