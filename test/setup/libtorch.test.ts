// Where set-up finds libtorch: LIBTORCH, the torch of the active Python, the cache; and how it refuses a wrong one.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Checkout, libtorchFiles, PROJECT, programPath, writeFiles } from "./checkout.ts";

let checkout: Checkout;
beforeEach(() => {
  checkout = new Checkout();
});
afterEach(() => checkout.remove());

/** A python3 whose torch lies in the folder given. */
function pythonWithTorch(folder: string): void {
  checkout.script("python3", `[ "$1" = -c ] && echo "${folder}" || exit 1`);
}

function fillCache(version: string): string {
  const folder = path.join(
    checkout.cache,
    `libtorch-${version}-${process.platform}-${process.arch}`,
    "torch",
  );
  writeFiles(folder, libtorchFiles(version));
  return folder;
}

/** The folder that set-up remembers as found. */
function found(): string {
  return JSON.parse(fs.readFileSync(path.join(checkout.root, ".build/libtorch.stamp"), "utf8")).folder;
}

describe("LIBTORCH", () => {
  const named = (value: string) => checkout.failure(["libtorch"], { LIBTORCH: value });

  it("is taken when its version fits, patch releases included", () => {
    expect(checkout.setUp(["libtorch"], { LIBTORCH: checkout.libtorch("2.13.7") })).toMatchObject({
      status: 0,
      stderr: "",
    });
  });

  it("is refused with found and expected when its version does not fit", () => {
    const folder = checkout.libtorch("2.12.1");
    expect(named(folder)).toBe(
      `LIBTORCH=${folder} is of the wrong version: found 2.12.1, expected 2.13; unset LIBTORCH to let set-up find or fetch the right one`,
    );
  });

  it("takes another version when TOKENGRAD_LIBTORCH_VERSION says so", () => {
    const LIBTORCH = checkout.libtorch("2.14.1");
    expect(checkout.setUp(["libtorch"], { LIBTORCH, TOKENGRAD_LIBTORCH_VERSION: "2.14.0" }).status).toBe(0);
  });

  it("reads version.py where there is no version header", () => {
    const folder = checkout.libtorch("2.13.0");
    fs.rmSync(path.join(folder, "include/torch"), { recursive: true });
    writeFiles(folder, { "version.py": "__version__ = '2.11.0+cu130'\n" });
    expect(named(folder)).toMatch(/found 2\.11\.0\+cu130, expected 2\.13/);
  });

  it("is refused when it does not exist", () => {
    expect(named("/nowhere")).toBe(
      "LIBTORCH=/nowhere is no libtorch folder: it does not exist; name a folder that has include/ and lib/, or unset LIBTORCH",
    );
  });

  it("is refused with what it lacks", () => {
    const folder = checkout.libtorch("2.13.0");
    fs.rmSync(path.join(folder, "include/ATen"), { recursive: true });
    expect(named(folder)).toBe(
      `LIBTORCH=${folder} is no libtorch folder: it has no include/ATen/ATen.h; name a folder that has include/ and lib/, or unset LIBTORCH`,
    );
  });

  it("is refused with a better value when libtorch lies one folder below", () => {
    const site = path.join(checkout.root, "site-packages");
    writeFiles(path.join(site, "torch"), libtorchFiles("2.13.0"));
    expect(named(site)).toMatch(new RegExp(`; set LIBTORCH=${site}/torch$`));
  });
});

describe("the order", () => {
  it("puts LIBTORCH before the torch of Python", () => {
    pythonWithTorch(checkout.libtorch("2.13.0"));
    expect(checkout.failure(["libtorch"], { LIBTORCH: "/nowhere" })).toMatch(/^LIBTORCH=\/nowhere/);
  });

  it("puts the torch of Python before the cache", () => {
    const folder = checkout.libtorch("2.13.1");
    pythonWithTorch(folder);
    fillCache("2.13.0");
    expect(checkout.setUp(["libtorch"]).status).toBe(0);
    expect(found()).toBe(folder);
  });

  it("passes over a torch of another version, saying so, and takes the cache", () => {
    pythonWithTorch(checkout.libtorch("2.12.0"));
    const cached = fillCache("2.13.0");
    const { status, stderr } = checkout.setUp(["libtorch"]);
    expect(status).toBe(0);
    expect(stderr).toBe(
      `set-up: passing over the torch of ${checkout.path}/python3: it is 2.12.0, not 2.13\n`,
    );
    expect(found()).toBe(cached);
  });

  it("keeps what it found while it is there, and looks again when it is gone", () => {
    const folder = checkout.libtorch("2.13.1");
    pythonWithTorch(folder);
    const cached = fillCache("2.13.0");
    checkout.setUp(["libtorch"]);
    expect(found()).toBe(folder);
    fs.rmSync(folder, { recursive: true });
    checkout.setUp(["libtorch"]);
    expect(found()).toBe(cached);
  });

  it("does not take a cache in which a part is missing", () => {
    const cached = fillCache("2.13.0");
    fs.rmSync(path.join(cached, "lib"), { recursive: true });
    expect(checkout.failure(["libtorch"])).toMatch(/^Python 3\.9 or newer and pip .* are missing/);
  });
});

describe("CMake", () => {
  const configure = (version: string) => {
    const build = path.join(checkout.root, "cmake");
    const args = ["-S", PROJECT, "-B", build, `-DLIBTORCH=${checkout.libtorch(version)}`];
    const env = { ...process.env, TOKENGRAD_LIBTORCH_VERSION: "" };
    return spawnSync(programPath("cmake"), args, { env, encoding: "utf8" });
  };

  it("refuses a libtorch of another version than the one that package.json pins", () => {
    const { status, stderr } = configure("2.12.1");
    expect(status).toBe(1);
    expect(stderr.replace(/\s+/g, " ")).toMatch(/is of the wrong version: found 2\.12, expected 2\.13/);
  });

  it("takes the pinned one", () => {
    const { status, stderr } = configure("2.13.4");
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });
});
