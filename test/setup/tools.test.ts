// A tool that is missing or too old ends set-up in one sentence that says which, and the command that mends it.
import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Checkout } from "./checkout.ts";

let checkout: Checkout;
beforeEach(() => {
  checkout = new Checkout();
});
afterEach(() => checkout.remove());

const isRoot = process.getuid?.() === 0;
const aptLine = (packages: string) =>
  isRoot
    ? `install with: apt-get update && apt-get install -y ${packages}`
    : `install with: sudo apt-get update && sudo apt-get install -y ${packages}`;

/** What building needs, each there: tests leave one out or replace it. */
const CMAKE = 'echo "cmake version 3.25.1"';
const COMPILER = "exit 0";

describe("building", () => {
  const build = (variables = {}) =>
    checkout.failure(["native"], { LIBTORCH: checkout.libtorch("2.13.0"), ...variables });

  it("names CMake", () => {
    checkout.script("c++", COMPILER).script("make", "").script("apt-get", "");
    expect(build()).toBe(`CMake 3.20 or newer is missing; ${aptLine("cmake")}, then run this again`);
  });

  it("names the version of a CMake that is too old, which the system's packages would not mend", () => {
    checkout
      .script("cmake", 'echo "cmake version 3.16.3"')
      .script("c++", COMPILER)
      .script("make", "")
      .script("apt-get", "");
    expect(build()).toBe(
      `CMake 3.20 or newer (found 3.16 at ${checkout.path}/cmake) is missing; install one with: python3 -m pip install --upgrade cmake, then run this again`,
    );
  });

  it("names the compiler", () => {
    checkout.script("cmake", CMAKE).script("make", "").script("dnf", "");
    expect(build()).toBe(
      `a C++20 compiler (found none) is missing; install with: ${isRoot ? "" : "sudo "}dnf install -y gcc-c++, then run this again`,
    );
  });

  it("names a compiler that does not take C++20", () => {
    checkout.script("cmake", CMAKE).script("g++", "exit 1").script("make", "").script("apt-get", "");
    expect(build()).toBe(
      `a C++20 compiler (${checkout.path}/g++ is too old) is missing; install g++ 11 or clang++ 14, or newer, and name it in CXX, then run this again`,
    );
  });

  it("takes the next compiler where the first is too old", () => {
    checkout.script("cmake", "exit 1").script("g++", "exit 1").script("clang++", COMPILER).script("make", "");
    expect(build()).not.toMatch(/compiler/);
  });

  it("names a CXX that is no compiler", () => {
    checkout.script("cmake", CMAKE).script("c++", COMPILER).script("make", "");
    expect(build({ CXX: "/nowhere/g++" })).toBe(
      "a C++20 compiler (CXX=/nowhere/g++ is none) is missing; unset CXX or name another compiler, then run this again",
    );
  });

  it("names make, which ninja replaces", () => {
    checkout.script("cmake", CMAKE).script("c++", COMPILER);
    expect(build()).toBe(
      "make or ninja is missing; install it with your system's package manager, then run this again",
    );
    checkout.script("ninja", "").script("cmake", "exit 1");
    expect(build()).toMatch(/^CMake 3\.20 or newer is missing/);
  });

  it("names all that is missing at once, with one command", () => {
    checkout.script("apt-get", "");
    expect(build()).toBe(
      `CMake 3.20 or newer and a C++20 compiler (found none) and make or ninja are missing; ${aptLine("cmake g++ make")}, then run this again`,
    );
  });

  it("asks for no Python when libtorch is there", () => {
    checkout.script("apt-get", "");
    expect(build()).not.toMatch(/Python|pip/);
  });
});

describe("fetching libtorch", () => {
  const fetch = () => checkout.failure(["libtorch"]);

  it("names Python and pip", () => {
    checkout.script("apt-get", "");
    expect(fetch()).toBe(
      `Python 3.9 or newer and pip (to fetch libtorch; LIBTORCH=/folder makes it needless) are missing; ${aptLine("python3 python3-pip")}, then run this again`,
    );
  });

  it("names a Python that is too old", () => {
    checkout.script("python3", 'echo "Python 3.6.8"').script("brew", "");
    expect(fetch()).toBe(
      `Python 3.9 or newer (found 3.6 at ${checkout.path}/python3) is missing; install with: brew install python, then run this again`,
    );
  });

  it("names pip when Python lacks it", () => {
    checkout
      .script("python3", '[ "$1" = --version ] && echo "Python 3.11.2" || exit 1')
      .script("apt-get", "");
    expect(fetch()).toBe(
      `pip (to fetch libtorch; LIBTORCH=/folder makes it needless) is missing; ${aptLine("python3-pip")}, then run this again`,
    );
  });

  it("names a cache that cannot be written", () => {
    checkout.script("python3", '[ "$1" = -m ] && echo "pip 25.3 from here" || echo "Python 3.11.2"');
    const file = path.join(checkout.root, "file");
    fs.writeFileSync(file, "");
    expect(checkout.failure(["libtorch"], { TOKENGRAD_CACHE: path.join(file, "cache") })).toBe(
      `the cache ${file}/cache cannot be written (ENOTDIR); set TOKENGRAD_CACHE to a folder of yours`,
    );
  });
});

it("names a Node.js that is too old", () => {
  const older = path.join(checkout.root, "older.cjs");
  fs.writeFileSync(
    older,
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.19.0" } });
Object.defineProperty(process, "version", { value: "v18.19.0" });`,
  );
  expect(checkout.failure([], {}, ["--require", older])).toBe(
    "Node.js 20 or newer is missing (found v18.19.0); install it from your system's packages or with nvm install 20, then run this again",
  );
});

it("names a step that does not exist", () => {
  expect(checkout.failure(["nativ"])).toBe(
    "nativ is no step; expected some of packages, libtorch, native, typescript",
  );
});
