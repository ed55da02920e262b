// The addon itself: whatever it is given, it throws or rejects with a code and never crashes; and how loading fails.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { NativeProgramSpec, NativeRequest } from "../../src/engine/binding.ts";
import { seededRandom } from "../helpers.ts";
import { binding, chain, newEngine, request } from "./native.mjs";

/** Values that belong nowhere. */
const garbage: unknown[] = [
  undefined,
  null,
  true,
  -1,
  0.5,
  1e300,
  Number.NaN,
  2 ** 32,
  2 ** 53,
  "",
  "token",
  "\0",
  10n,
  Symbol("s"),
  () => 1,
  {},
  [],
  [undefined],
  [-1],
  [[]],
  new Proxy({}, {}),
  new Uint32Array(0),
  new Uint32Array(4).fill(0xffffffff),
  new Float32Array(3),
  new Float64Array(1e5),
  new BigInt64Array(2),
  new DataView(new ArrayBuffer(8)),
  new ArrayBuffer(0),
  new ArrayBuffer(7),
  new SharedArrayBuffer(64),
  new Uint32Array(new SharedArrayBuffer(16)),
  Buffer.alloc(3),
  globalThis,
  {
    get nodes() {
      throw new Error("from a getter");
    },
  },
];

const codeOf = async (work: () => unknown): Promise<string> => {
  try {
    await work();
    return "none";
  } catch (error) {
    return String((error as { code?: unknown }).code ?? (error as Error).message);
  }
};
const CODES = /^(none|ERR_(REQUEST|PROGRAM|GROUP_SIZE|NON_FINITE|DISPOSED)|from a getter|Cannot convert.*)$/;

/** A copy of a value with one place in it, chosen at random, replaced by garbage. */
function spoil(value: unknown, random: () => number): unknown {
  const nested = typeof value === "object" && value !== null && !ArrayBuffer.isView(value);
  const keys = nested && !(value instanceof ArrayBuffer) ? Object.keys(value) : [];
  if (keys.length === 0 || random() < 0.2) return garbage[Math.floor(random() * garbage.length)];
  const key = keys[Math.floor(random() * keys.length)]!;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = spoil(copy[key], random);
  return copy;
}

describe("garbage", () => {
  it("in a program is refused with a code", async () => {
    const random = seededRandom(1);
    const codes = new Set<string>();
    for (const value of garbage) codes.add(await codeOf(() => binding.compile(value as NativeProgramSpec)));
    for (let i = 0; i < 5000; i++) {
      codes.add(await codeOf(() => binding.compile(spoil(chain(3), random) as NativeProgramSpec)));
    }
    for (const code of codes) expect(code).toMatch(CODES);
    expect(codes.size).toBeGreaterThan(2);
  });

  it("in a request is refused with a code", async () => {
    const random = seededRandom(2);
    const engine = newEngine(1);
    const program = binding.compile({ ...chain(3), outputs: [1, 3] });
    const whole = { ...request(8), outputs: [new Float64Array(8), new Float64Array(8)] };
    const codes = new Set<string>();
    const run = (given: unknown) => codeOf(() => engine.run(program, given as NativeRequest).promise);
    for (const value of garbage) codes.add(await run(value));
    for (let i = 0; i < 3000; i++) codes.add(await run(spoil(whole, random)));
    for (const code of codes) expect(code).toMatch(CODES);
    expect(codes.has("ERR_REQUEST")).toBe(true);
    expect(await run(whole)).toBe("none");
    expect(await run(request(8))).toBe("ERR_REQUEST");
    engine.dispose();
  });

  it("in place of an engine, a program, options or an id is refused", async () => {
    const engine = newEngine(1);
    const { prototype } = binding.Engine;
    for (const value of garbage) {
      expect(await codeOf(() => engine.run(value as never, request(8)))).toBe("ERR_REQUEST");
      expect(await codeOf(() => new binding.Engine(value as never))).toBe("ERR_REQUEST");
      expect(await codeOf(() => engine.cancel(value as never))).toMatch(/none|ERR_REQUEST/);
      for (const method of ["open", "run", "cancel", "dispose"] as const) {
        expect(() => prototype[method].call(value as never, 0 as never, 0 as never)).toThrow();
      }
    }
    expect(await codeOf(() => engine.run(binding.Engine as never, request(8)))).toBe("ERR_REQUEST");
    expect(() => (binding.Engine as unknown as () => void)()).toThrow();
    const forged = Object.create(prototype);
    expect(() => forged.run(binding.compile(chain(1)), request(8))).toThrow();
    engine.dispose();
  });

  it("after dispose is refused", async () => {
    const engine = newEngine(1);
    engine.dispose();
    engine.dispose();
    engine.cancel(0);
    expect(await codeOf(() => engine.run(binding.compile(chain(1)), request(8)))).toBe("ERR_DISPOSED");
    expect(await codeOf(() => engine.open())).toBe("ERR_DISPOSED");
  });

  it("a buffer that can shrink is refused", async () => {
    const engine = newEngine(1);
    // biome-ignore lint/suspicious/noExplicitAny: the type of the option is newer than the library's
    const resizable = new (ArrayBuffer as any)(32, { maxByteLength: 64 });
    const program = binding.compile(chain(1));
    for (const change of [
      { output: resizable },
      { inputs: [new Float32Array(resizable)] },
      { outputs: [new Float64Array(resizable)] },
    ]) {
      expect(await codeOf(() => engine.run(program, { ...request(8), ...change }))).toBe("ERR_REQUEST");
    }
    engine.dispose();
  });
});

describe("an engine", () => {
  it("gives the same by every executor, and the outputs that were asked for", async () => {
    const engine = newEngine(1);
    const program = binding.compile({ ...chain(2), outputs: [1] });
    expect(binding.lacking(program).every((name) => typeof name === "string")).toBe(true);
    for (const executor of ["fused", "torch", "autograd"] as const) {
      const given = { ...request(3), executor, outputs: [new Float64Array(3)] };
      const { loss } = await engine.run(program, given).promise;
      expect(loss).toBeCloseTo(0.5668330070205946, 6);
      for (const value of given.outputs[0]!) expect(value).toBeCloseTo(0.2689414213699951, 6);
      // A third of s(s(-1))' for each token.
      for (const value of new Float32Array(given.output)) expect(value).toBeCloseTo(0.0160913, 6);
    }
    engine.dispose();
  });

  it("tells all samples that a value which is not finite began in", async () => {
    const engine = newEngine(1);
    const given = {
      ...request(4),
      rowLengths: Uint32Array.of(1, 1, 2),
      runCounts: Uint32Array.of(1, 1, 1),
      runs: Uint32Array.of(0, 1, 0, 1, 0, 2),
      groupSizes: Uint32Array.of(3),
      inputs: [Float32Array.of(Number.NaN, -1, -1, Number.NaN)],
    };
    const facts = { code: "ERR_NON_FINITE", node: 0, sample: 0, position: 0, samples: [0, 2] };
    await expect(engine.run(binding.compile(chain(1)), given).promise).rejects.toMatchObject(facts);
    engine.dispose();
  });

  it("answers with a promise, and stops by id", async () => {
    const engine = newEngine(1);
    const program = binding.compile(chain(60));
    const calls = [0, 1, 2].map(() => engine.run(program, request(1 << 19)));
    expect(new Set(calls.map(({ id }) => id)).size).toBe(3);
    engine.cancel(calls[1]!.id);
    engine.cancel(calls[1]!.id);
    expect(await codeOf(() => calls[1]!.promise)).toBe("ERR_ABORTED");
    expect((await calls[2]!.promise).loss).toBeCloseTo(0.659, 3);
    engine.dispose();
  });
});

describe("loading", () => {
  afterEach(() => {
    vi.doUnmock("node:module");
    vi.resetModules();
  });

  const loadWith = async (error: Error) => {
    vi.resetModules();
    vi.doMock("node:module", () => ({
      createRequire: () => () => {
        throw error;
      },
    }));
    const { loadBinding } = await import("../../src/engine/binding.ts");
    try {
      loadBinding();
    } catch (thrown) {
      return thrown;
    }
    return undefined;
  };

  it("names every path, the reason and a remedy", async () => {
    const error = await loadWith(new Error("undefined symbol: _ZN2at4_ops"));
    expect(error).toMatchObject({
      name: "LoadError",
      code: "ERR_LOAD",
      attempts: expect.arrayContaining([
        { path: expect.stringContaining("tokengrad.node"), reason: "undefined symbol: _ZN2at4_ops" },
      ]),
    });
    expect((error as Error).message).toContain("npx node-gyp rebuild");
  });

  it("refuses a libtorch of another minor version with found and expected", async () => {
    const fault = { code: "ERR_LIBTORCH_VERSION", found: "2.4.0", expected: "2.13" };
    expect(await loadWith(Object.assign(new Error("no"), fault))).toMatchObject({
      name: "LibtorchVersionError",
      ...fault,
      message: expect.stringContaining("expected version 2.13, got 2.4.0"),
    });
  });

  it("tells a libtorch of another version beside the addon from a broken addon", () => {
    const root = join(import.meta.dirname, "../..");
    const folder = mkdtempSync(join(tmpdir(), "tokengrad-addon-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const part of ["dist", "build/Release", "build/libtorch"])
      mkdirSync(join(folder, part), { recursive: true });
    for (const file of ["package.json", "dist/addon.js", "dist/errors.js"])
      copyFileSync(join(root, file), join(folder, file));
    writeFileSync(join(folder, "build/Release/tokengrad.node"), "no library");
    const codeWith = (version: string) => {
      writeFileSync(join(folder, "build/libtorch/build-version"), version);
      const script = `import { loadAddon } from "./dist/addon.js";
        try { loadAddon("tokengrad") } catch ({ code, found, expected }) { console.log(code, found, expected) }`;
      const args = ["--input-type=module", "--eval", script];
      return spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" }).stdout.trim();
    };
    expect(codeWith("2.4.1+cpu")).toBe("ERR_LIBTORCH_VERSION 2.4.1 2.13");
    expect(codeWith("2.13.0+cpu")).toBe("ERR_LOAD undefined undefined");
  });
});
