// The steps: what counts as done, so that nothing is done twice and nothing half done is taken for whole.
import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packagesAreCurrent } from "../../scripts/setup/packages.mjs";
import { hashOf } from "../../scripts/setup/stamp.mjs";
import { Checkout, writeFiles } from "./checkout.ts";

let checkout: Checkout;
beforeEach(() => {
  checkout = new Checkout();
});
afterEach(() => checkout.remove());

describe("packages", () => {
  const wanted = {
    "": { version: "0.1.0" },
    "node_modules/a": { version: "1.0.0", integrity: "sha512-a" },
    "node_modules/here": {
      version: "1.0.0",
      integrity: "sha512-h",
      optional: true,
      os: [process.platform],
      cpu: [process.arch],
    },
    "node_modules/elsewhere": {
      version: "1.0.0",
      integrity: "sha512-e",
      optional: true,
      os: ["aix"],
      cpu: ["ppc64"],
    },
  };
  const { "node_modules/elsewhere": _, "": __, ...installed } = wanted;

  function isCurrent(record: object | undefined): boolean {
    fs.rmSync(path.join(checkout.root, "node_modules"));
    writeFiles(checkout.root, { "package-lock.json": JSON.stringify({ packages: wanted }) });
    if (record)
      writeFiles(checkout.root, { "node_modules/.package-lock.json": JSON.stringify({ packages: record }) });
    return packagesAreCurrent(checkout.root);
  }

  it("are current when npm's record holds what the lockfile wants here", () => {
    expect(isCurrent(installed)).toBe(true);
  });

  it.each([
    ["there is no record", undefined],
    ["a package is missing", { "node_modules/here": installed["node_modules/here"] }],
    [
      "a package is of another version",
      { ...installed, "node_modules/a": { version: "2.0.0", integrity: "sha512-a" } },
    ],
    [
      "a package has other contents",
      { ...installed, "node_modules/a": { version: "1.0.0", integrity: "sha512-x" } },
    ],
    ["the variant for this system is missing", { "node_modules/a": installed["node_modules/a"] }],
  ])("are not current when %s", (_case, record) => {
    expect(isCurrent(record)).toBe(false);
  });

  it.each([
    ["ENOTFOUND", /^npm could not reach its package registry \(ENOTFOUND\); check the network and the proxy/],
    ["ENOSPC", /^the disk is full; make room for about \d+ MB/],
    ["EUSAGE", /^npm ci failed \(EUSAGE\); its output is above$/],
  ])("end in one sentence when npm ends with %s", (code, sentence) => {
    fs.rmSync(path.join(checkout.root, "node_modules"));
    checkout.script("npm", `echo "npm error code ${code}" >&2; exit 1`);
    expect(checkout.failure(["packages"])).toMatch(sentence);
  });

  it("name npm when it is missing", () => {
    fs.rmSync(path.join(checkout.root, "node_modules"));
    expect(checkout.failure(["packages"])).toMatch(
      /^npm is missing; install Node\.js 20 or newer together with npm/,
    );
  });
});

describe("TypeScript", () => {
  const dist = () => fs.readdirSync(path.join(checkout.root, "dist")).sort();
  const compile = () => checkout.setUp(["typescript"]);

  beforeEach(() =>
    writeFiles(checkout.root, { "src/a.ts": "export const a = 1;\n", "src/b.ts": "export const b = 2;\n" }),
  );

  it("is compiled once, again after a change, and without what is gone from src", () => {
    expect(compile().stderr).toMatch(/compiling TypeScript: done/);
    const outputs = (name: string) => [".d.ts", ".js", ".js.map"].map((extension) => `${name}${extension}`);
    expect(dist()).toEqual([".tsbuildinfo", ...outputs("a"), ...outputs("b")]);
    expect(compile().stderr).toBe("");

    writeFiles(checkout.root, { "src/a.ts": "export const a = 3;\n" });
    fs.rmSync(path.join(checkout.root, "src/b.ts"));
    expect(compile().stderr).toMatch(/compiling TypeScript: done/);
    expect(dist()).toEqual([".tsbuildinfo", ...outputs("a")]);
    expect(fs.readFileSync(path.join(checkout.root, "dist/a.js"), "utf8")).toMatch(/a = 3/);
  });

  it("is compiled again when an output was removed", () => {
    compile();
    fs.rmSync(path.join(checkout.root, "dist/b.js"));
    compile();
    expect(dist()).toContain("b.js");
  });

  it("ends with the compiler's messages when it is wrong, and is tried again", () => {
    writeFiles(checkout.root, { "src/a.ts": "export const a: string = 1;\n" });
    for (const _attempt of [1, 2]) {
      expect(compile().stderr).toMatch(/src\/a\.ts.*TS2322/);
      expect(checkout.failure(["typescript"])).toBe(
        "compiling TypeScript failed: the compiler's messages are above",
      );
    }
  });
});

describe("the native code", () => {
  const build = (cmakeJs: string) => {
    fs.rmSync(path.join(checkout.root, "node_modules"));
    writeFiles(checkout.root, {
      "package-lock.json": JSON.stringify({ packages: {} }),
      "node_modules/.package-lock.json": JSON.stringify({ packages: {} }),
      "node_modules/cmake-js/bin/cmake-js": cmakeJs,
    });
    checkout.script("cmake", 'echo "cmake version 3.25.1"').script("c++", "exit 0").script("ninja", "");
    return { LIBTORCH: checkout.libtorch("2.13.0") };
  };
  const failing = (text: string) =>
    `if (process.argv[2] === "build") { console.log(${JSON.stringify(text)}); process.exit(1); }`;

  it.each([
    [
      "error: 'x' was not declared",
      /failed: the compiler's messages are above \(all output: \.build\/native\.log\)$/,
    ],
    [
      "fatal error: Killed signal terminated program cc1plus",
      /out of memory; run this again with CMAKE_BUILD_PARALLEL_LEVEL=1/,
    ],
    ["error writing to /tmp/x.s: No space left on device", /the disk is full; make room/],
  ])("ends in one sentence on %s", (text, sentence) => {
    const variables = build(failing(text));
    expect(checkout.setUp(["native"], variables).stderr).toContain(text);
    expect(checkout.failure(["native"], variables)).toMatch(sentence);
  });

  it("is put in place with a link to libtorch, once, and again when the sources or libtorch change", () => {
    const variables = build(`
      const fs = require("node:fs");
      const out = process.argv[process.argv.indexOf("--out") + 1];
      fs.mkdirSync(out + "/Release", { recursive: true });
      for (const addon of ["tokengrad", "trainer"]) fs.writeFileSync(out + "/Release/" + addon + ".node", addon);`);
    writeFiles(checkout.root, { "native/core/a.cpp": "" });
    const again = (other = variables) => checkout.setUp(["native"], other).stderr !== "";
    expect(again()).toBe(true);
    expect(fs.readdirSync(path.join(checkout.root, "build/Release")).sort()).toEqual([
      "tokengrad.node",
      "trainer.node",
    ]);
    expect(fs.readlinkSync(path.join(checkout.root, "build/libtorch"))).toBe(variables.LIBTORCH);
    expect(again()).toBe(false);
    writeFiles(checkout.root, { "native/core/a.cpp": "// changed" });
    expect([again(), again()]).toEqual([true, false]);
    fs.rmSync(path.join(checkout.root, "build"), { recursive: true }); // as node-gyp does
    expect([again(), again()]).toEqual([true, false]);
    const other = { LIBTORCH: checkout.libtorch("2.13.1") };
    expect([again(other), again(other)]).toEqual([true, false]);
    expect(fs.readlinkSync(path.join(checkout.root, "build/libtorch"))).toBe(other.LIBTORCH);
  });

  it("lets prebuildify have the trainer beside its addon", () => {
    const variables = build(`
      const fs = require("node:fs");
      const out = process.argv[process.argv.indexOf("--out") + 1];
      fs.mkdirSync(out + "/Release", { recursive: true });
      for (const addon of ["tokengrad", "trainer"]) fs.writeFileSync(out + "/Release/" + addon + ".node", addon);`);
    checkout.setUp(["native"], { ...variables, PREBUILD_PLATFORM: "linux", PREBUILD_ARCH: "x64" });
    expect(fs.readdirSync(path.join(checkout.root, "prebuilds/linux-x64"))).toEqual(["trainer.node"]);
  });
});

it("hashes names and contents of files, and the facts beside them", () => {
  writeFiles(checkout.root, { "d/a": "1", "d/e/b": "2" });
  const hash = (...facts: unknown[]) => hashOf(checkout.root, ["d", "absent"], ...facts);
  const first = hash("x");
  expect(hash("x")).toBe(first);
  expect(hash("y")).not.toBe(first);
  fs.renameSync(path.join(checkout.root, "d/a"), path.join(checkout.root, "d/c"));
  expect(hash("x")).not.toBe(first);
  fs.renameSync(path.join(checkout.root, "d/c"), path.join(checkout.root, "d/a"));
  expect(hash("x")).toBe(first);
  writeFiles(checkout.root, { "d/e/b": "3" });
  expect(hash("x")).not.toBe(first);
});
