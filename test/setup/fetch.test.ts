// Fetching libtorch through pip: which wheels, what of them is kept, and what happens when they are not right.
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Checkout, libtorchFiles, PROJECT, programPath, temporaryFolder, writeFiles } from "./checkout.ts";
import { Index, makeWheel, type Wheel } from "./wheels.ts";

const SUFFIX = process.platform === "darwin" ? "dylib" : "so";
const LIBRARY = `torch/lib/libtorch_cpu.${SUFFIX}`;

let folder: string;
let index: Index;
let wheels: { cpu: Wheel; runtime: Wheel; cupti: Wheel; toolkit: Wheel };
let shimmed: string;

/** A library that loads, so that the check after unpacking means something. */
function compile(name: string, ...flags: string[]): Buffer {
  const file = path.join(folder, name);
  const args = ["-shared", "-fPIC", "-x", "c", "/dev/null", "-x", "none", "-o", file, ...flags];
  const { status, stderr } = spawnSync(programPath("c++"), args, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return fs.readFileSync(file);
}

function torchFiles(library: Buffer): Record<string, string | Buffer> {
  const files = Object.entries(libtorchFiles("2.13.0")).map(([name, text]) => [`torch/${name}`, text]);
  return {
    ...Object.fromEntries(files),
    [LIBRARY]: library,
    "torch/version.py": "__version__ = '2.13.0'\n",
    "torch/nn/functional.py": "raise SystemExit\n",
    [`torch/lib/libtorch_python.${SUFFIX}`]: "needs Python",
    [`torch/lib/libtorch_cuda.${SUFFIX}`]: "needs a GPU",
  };
}

beforeAll(async () => {
  folder = temporaryFolder();
  const cpu = makeWheel(folder, "torch", "2.13.0", torchFiles(compile("libtorch_cpu")));
  const cudaFiles = (name: string) => ({
    [`nvidia/cu13/lib/lib${name}.so.99`]: compile(`lib${name}.so.99`, `-Wl,-soname,lib${name}.so.99`),
    "nvidia/cu13/include/x.h": "",
  });
  const linux = process.platform === "linux";
  wheels = {
    cpu,
    runtime: makeWheel(folder, "nvidia-cuda-runtime", "13.0.96", linux ? cudaFiles("cudart") : {}),
    cupti: makeWheel(folder, "nvidia-cuda-cupti", "13.0.85", linux ? cudaFiles("cupti") : {}),
    toolkit: makeWheel(
      folder,
      "cuda-toolkit",
      "13.0.3",
      {},
      {
        requires: [
          'nvidia-cuda-runtime==13.0.96; extra == "cudart"',
          'nvidia-cuda-cupti==13.0.85; extra == "cupti"',
          'nvidia-cublas==13.1.0; extra == "cublas"',
        ],
      },
    ),
  };
  // A pip that calls itself as old or new as SHIM_VERSION says and is the one of this machine otherwise.
  shimmed = path.join(folder, "shim");
  writeFiles(shimmed, {
    "pip/__init__.py": "",
    "pip/__main__.py": `
import os, runpy, sys
if "--version" in sys.argv:
    print("pip", os.environ["SHIM_VERSION"], "from a test")
else:
    sys.path = [entry for entry in sys.path if entry != ${JSON.stringify(shimmed)}]
    for name in [name for name in sys.modules if name.split(".")[0] == "pip"]:
        del sys.modules[name]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
`,
  });
});
afterAll(() => fs.rmSync(folder, { recursive: true }));
afterEach(() => index.stop());

async function serve(...served: Wheel[]): Promise<void> {
  index = new Index(served);
  await index.start();
}

/** Runs fetch.py with a pip that calls itself of the version given; the variables come last. */
async function fetch(pipVersion = "99.0", variables: Record<string, string> = {}) {
  const cache = temporaryFolder();
  const target = path.join(cache, "libtorch");
  const script = path.join(PROJECT, "scripts/libtorch/fetch.py");
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    ...index.pipEnvironment(),
    PYTHONPATH: shimmed,
    SHIM_VERSION: pipVersion,
    ...variables,
  };
  const child = spawn(programPath("python3"), ["-B", script, "2.13.0", target], { env });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  const files = fs.existsSync(target)
    ? fs.readdirSync(target, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    : undefined;
  const names = files?.map((entry) => path.relative(target, path.join(entry.parentPath, entry.name))).sort();
  const rest = fs.readdirSync(cache);
  fs.rmSync(cache, { recursive: true });
  return { code, out: out.trim(), err, names, rest };
}

const KEPT = [
  ...Object.keys(libtorchFiles("2.13.0")).map((name) => `torch/${name}`),
  "torch/version.py",
  "torch-2.13.0.dist-info/METADATA",
  "torch-2.13.0.dist-info/RECORD",
];

it("keeps headers, libraries and versions of the wheel, and nothing of the download", async () => {
  await serve(wheels.cpu);
  const { code, err, names, rest } = await fetch();
  expect(err + code).toMatch(/0$/);
  expect(names).toEqual([...KEPT].sort());
  expect(rest).toEqual(["libtorch"]);
  expect(index.fetches).toHaveLength(1);
});

it("lets pip fetch where pip is too old to tell an address, and no newer one is to be had", async () => {
  await serve(wheels.cpu);
  const { code, err, names } = await fetch("22.0");
  expect(code).toBe(0);
  expect(names).toEqual([...KEPT].sort());
  expect(err).toContain("letting pip fetch torch==2.13.0");
  expect(index.fetches).toEqual([]);
});

it("lets pip fetch where the server serves pip alone", async () => {
  await serve(wheels.cpu);
  index.faults.wheel = (request, response) => {
    if (request.headers["user-agent"] !== "tokengrad-setup") return false;
    response.writeHead(403).end();
    return true;
  };
  const { code, err, names } = await fetch();
  expect(code).toBe(0);
  expect(err).toContain("the server answered 403");
  expect(names).toEqual([...KEPT].sort());
});

it("goes through the proxy that pip's configuration names", async () => {
  await serve(wheels.cpu);
  const { origin } = index;
  const { code, names } = await fetch("99.0", {
    PIP_INDEX_URL: "http://index.test/simple",
    PIP_TRUSTED_HOST: "index.test",
    PIP_PROXY: origin,
  });
  expect(code).toBe(0);
  expect(names).toEqual([...KEPT].sort());
  expect(index.fetches.map(({ path }) => path)).toEqual([`http://index.test/files/${wheels.cpu.name}`]);
});

describe.runIf(process.platform === "linux")("a CUDA build", () => {
  const needing = () =>
    compile(
      "libtorch_cuda_build.so",
      "-Wl,--no-as-needed",
      path.join(folder, "libcudart.so.99"),
      path.join(folder, "libcupti.so.99"),
      "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cu13/lib",
    );

  it.each([
    ["by the addresses that pip tells", "99.0"],
    ["through a pip that tells none", "22.0"],
  ])(
    "brings the two libraries that it needs on any machine, where it looks for them, %s",
    async (_way, pip) => {
      const made = temporaryFolder();
      const torch = makeWheel(made, "torch", "2.13.0", torchFiles(needing()), {
        requires: [
          'cuda-toolkit[cublas,cudart,cupti]==13.0.3; platform_system == "Linux"',
          'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
        ],
      });
      await serve(torch, wheels.toolkit, wheels.runtime, wheels.cupti);
      const { code, out, err, names } = await fetch(pip);
      expect(out).toBe("");
      expect(code).toBe(0);
      expect(err.match(/unpacking \w+-/g)?.sort()).toEqual(
        ["cuda_toolkit", "nvidia_cuda_cupti", "nvidia_cuda_runtime", "torch"].map(
          (name) => `unpacking ${name}-`,
        ),
      );
      expect(names).toContain("nvidia/cu13/lib/libcudart.so.99");
      expect(names).toContain("nvidia/cu13/lib/libcupti.so.99");
      expect(names).not.toContain("nvidia/cu13/include/x.h");
      fs.rmSync(made, { recursive: true });
    },
  );

  it("is refused, naming the library, when it does not load", async () => {
    const made = temporaryFolder();
    await serve(makeWheel(made, "torch", "2.13.0", torchFiles(needing())));
    const { code, out, names } = await fetch();
    expect(code).toBe(1);
    expect(out).toMatch(
      /^the fetched libtorch does not load on this system \(.*libcudart\.so\.99.*\); set LIBTORCH to/,
    );
    expect(names).toBeUndefined();
    fs.rmSync(made, { recursive: true });
  });
});

describe("ends in one sentence", () => {
  it("when a file of the wheel is not what its RECORD says", async () => {
    const made = temporaryFolder();
    const spoilt = "torch/include/ATen/ATen.h";
    const { [spoilt]: _, ...files } = torchFiles(Buffer.from(""));
    await serve(makeWheel(made, "torch", "2.13.0", { ...files, [spoilt]: "damaged" }, { spoilt: [spoilt] }));
    const { code, out, names } = await fetch();
    expect(code).toBe(1);
    expect(out).toMatch(
      /^torch\/include\/ATen\/ATen\.h in .* is damaged: sha256=.*, expected sha256=wrong; remove that wheel/,
    );
    expect(names).toBeUndefined();
    fs.rmSync(made, { recursive: true });
  });

  it("when pip reaches no index", async () => {
    await serve();
    await index.stop();
    const { code, out } = await fetch();
    expect(code).toBe(1);
    expect(out).toMatch(
      /^pip could not reach its package index to fetch torch==2\.13\.0; check the network, the proxy/,
    );
    await serve();
  });

  it("when there is no such version", async () => {
    await serve(makeWheel(folder, "torch", "1.0.0", {}));
    const { code, out } = await fetch();
    expect(code).toBe(1);
    expect(out).toMatch(
      /^pip offers no torch==2\.13\.0 for this system \(.*\); set LIBTORCH to a libtorch folder/,
    );
  });
});

it("is done once by two set-ups that start together, in two checkouts", async () => {
  await serve(wheels.cpu);
  const checkouts = [new Checkout(), new Checkout()];
  const cache = temporaryFolder();
  const ends = checkouts.map((checkout) => {
    const env = checkout.environment({
      PATH: process.env.PATH ?? "",
      TOKENGRAD_CACHE: cache,
      PYTHONPATH: shimmed,
      SHIM_VERSION: "99.0",
      ...index.pipEnvironment(),
    });
    const child = spawn(process.execPath, [path.join(checkout.root, "scripts/setup.mjs"), "libtorch"], {
      env,
    });
    let err = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    return new Promise<{ code: number | null; err: string }>((resolve) =>
      child.on("close", (code) => resolve({ code, err })),
    );
  });
  const results = await Promise.all(ends);
  expect(results.map(({ code, err }) => code || err.includes("internal"))).toEqual([false, false]);
  expect(index.fetches).toHaveLength(1);
  expect(
    results.filter(({ err }) => /waiting for a fetch of libtorch by process \d+/.test(err)),
  ).toHaveLength(1);
  for (const checkout of checkouts) checkout.remove();
  fs.rmSync(cache, { recursive: true });
});
