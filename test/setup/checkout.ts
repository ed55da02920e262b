// A small checkout to try set-up on, with a PATH of the test's own making.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const PROJECT = fileURLToPath(new URL("../..", import.meta.url));

/** The program found on the PATH of the tests. */
export function programPath(name: string): string {
  const found = (process.env.PATH ?? "")
    .split(path.delimiter)
    .map((folder) => path.join(folder, name))
    .find((candidate) => fs.existsSync(candidate));
  if (!found) throw new Error(`the tests need ${name} on PATH`);
  return found;
}

export function temporaryFolder(): string {
  return fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "tokengrad-setup-")));
}

/** Writes files given as path and text below `folder`. */
export function writeFiles(folder: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  }
}

/** The files by which a folder is known as a libtorch; nothing in them works. */
export function libtorchFiles(version: string): Record<string, string> {
  const [major, minor, patch] = version.split(".");
  const suffix = process.platform === "darwin" ? "dylib" : "so";
  return {
    "include/ATen/ATen.h": "",
    "include/torch/headeronly/version.h": `#define TORCH_VERSION_MAJOR ${major}\n#define TORCH_VERSION_MINOR ${minor}\n#define TORCH_VERSION_PATCH ${patch}\n`,
    [`lib/libtorch_cpu.${suffix}`]: "",
    [`lib/libc10.${suffix}`]: "",
  };
}

export class Checkout {
  readonly root = temporaryFolder();
  readonly path = temporaryFolder();
  readonly cache = path.join(temporaryFolder(), "cache");

  constructor() {
    for (const name of [
      "scripts",
      "package.json",
      "package-lock.json",
      "tsconfig.json",
      "tsconfig.build.json",
    ]) {
      fs.cpSync(path.join(PROJECT, name), path.join(this.root, name), { recursive: true });
    }
    fs.symlinkSync(path.join(PROJECT, "node_modules"), path.join(this.root, "node_modules"));
  }

  /** Puts programs of this machine on the checkout's PATH. */
  link(...names: string[]): this {
    for (const name of names) fs.symlinkSync(programPath(name), path.join(this.path, name));
    return this;
  }

  /** Puts a shell script on the checkout's PATH. */
  script(name: string, body: string): this {
    fs.writeFileSync(path.join(this.path, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    return this;
  }

  /** A libtorch in the checkout, named for LIBTORCH. */
  libtorch(version: string): string {
    const folder = path.join(this.root, `libtorch-${version}`);
    writeFiles(folder, libtorchFiles(version));
    return folder;
  }

  environment(variables: Record<string, string> = {}): NodeJS.ProcessEnv {
    return { PATH: this.path, HOME: this.root, TOKENGRAD_CACHE: this.cache, ...variables };
  }

  /** Runs `node scripts/setup.mjs` with the steps given. */
  setUp(steps: string[], variables: Record<string, string> = {}, nodeFlags: string[] = []) {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [...nodeFlags, path.join(this.root, "scripts/setup.mjs"), ...steps],
      { cwd: this.root, env: this.environment(variables), encoding: "utf8" },
    );
    return { status, stdout, stderr };
  }

  /** The one sentence in which a failing set-up ends; throws if it ends otherwise. */
  failure(steps: string[], variables: Record<string, string> = {}, nodeFlags: string[] = []): string {
    const { status, stdout, stderr } = this.setUp(steps, variables, nodeFlags);
    const sentence = /^tokengrad set-up: (.*)$/m.exec(stderr)?.[1];
    if (
      status !== 1 ||
      !sentence ||
      /^ {4}at /m.test(stderr) ||
      stderr.trimEnd().split("\n").at(-1) !== `tokengrad set-up: ${sentence}`
    ) {
      throw new Error(`expected exit code 1 and one sentence, got ${status}: ${stdout}${stderr}`);
    }
    return sentence;
  }

  remove(): void {
    for (const folder of [this.root, this.path, path.dirname(this.cache)]) {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  }
}
