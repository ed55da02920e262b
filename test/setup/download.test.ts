// The download: it resumes, retries, verifies, and says in one sentence why it cannot.
import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PROJECT, programPath, temporaryFolder } from "./checkout.ts";
import { Index, makeWheel, type Wheel } from "./wheels.ts";

const DRIVER = `
import sys
import urllib.request
sys.path.insert(0, sys.argv[1])
import download
from failure import Failure
download.ATTEMPTS = 2
try:
    print(download.download(sys.argv[2], sys.argv[3] or None, sys.argv[4], urllib.request.build_opener()))
except Failure as failure:
    sys.exit(str(failure))
`;

let folder: string;
let wheel: Wheel;
let index: Index;

beforeEach(async () => {
  folder = temporaryFolder();
  const content = Buffer.alloc(300_000, "abcdefg");
  const made = temporaryFolder();
  wheel = makeWheel(made, "torch", "2.13.0", { "torch/lib/data": content });
  index = new Index([wheel]);
  await index.start();
});
afterEach(async () => {
  await index.stop();
  for (const used of [folder, path.dirname(wheel.file)]) fs.rmSync(used, { recursive: true });
});

function start(
  url: string,
  sha256: string,
): { child: ChildProcess; end: Promise<{ code: number | null; out: string; err: string }> } {
  const args = ["-B", "-c", DRIVER, path.join(PROJECT, "scripts/libtorch"), url, sha256, folder];
  const child = spawn(programPath("python3"), args, { stdio: ["ignore", "pipe", "pipe"] });
  const end = (async () => {
    let out = "";
    let err = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (err += text));
    const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
    return { code, out: out.trim(), err };
  })();
  return { child, end };
}

const download = (sha256 = wheel.sha256, url = index.url(wheel)) => start(url, sha256).end;
const part = () => path.join(folder, `${wheel.name}.${wheel.sha256.slice(0, 16)}.part`);

function expectWhole(out: string): void {
  expect(out).toBe(path.join(folder, wheel.name));
  expect(fs.readFileSync(out).equals(wheel.bytes)).toBe(true);
  expect(fs.readdirSync(folder)).toEqual([wheel.name]);
}

it("brings a file, and does not fetch it again", async () => {
  expectWhole((await download()).out);
  expectWhole((await download()).out);
  expect(index.fetches).toEqual([
    { agent: "tokengrad-setup", path: `/files/${wheel.name}`, range: undefined },
  ]);
});

it("checks a file of this disk and leaves it where it lies", async () => {
  expect((await download(wheel.sha256, `file://${wheel.file}`)).out).toBe(wheel.file);
  const { code, err } = await download("0".repeat(64), `file://${wheel.file}`);
  expect(code).toBe(1);
  expect(err).toContain(
    `${wheel.name} is damaged: its sha256 is ${wheel.sha256}, expected ${"0".repeat(64)}`,
  );
});

it("goes on where a broken connection stopped", async () => {
  let cuts = 2;
  index.faults.wheel = (request, response, { bytes }) => {
    if (cuts-- <= 0) return false;
    const begin = Number(/\d+/.exec(request.headers.range ?? "0")?.[0]);
    const status = begin > 0 ? 206 : 200;
    response.writeHead(status, {
      "content-length": bytes.length - begin,
      "content-range": `bytes ${begin}-${bytes.length - 1}/${bytes.length}`,
    });
    response.write(bytes.subarray(begin, begin + 100_000), () => response.destroy());
    return true;
  };
  const { out, err } = await download();
  expectWhole(out);
  expect(index.fetches.map(({ range }) => range)).toEqual([undefined, "bytes=100000-", "bytes=200000-"]);
  expect(err).toContain("going on at 0.2 MB");
});

it("goes on where a killed run stopped", async () => {
  index.faults.wheel = (_request, response, { bytes }) => {
    response.writeHead(200, { "content-length": bytes.length });
    response.write(bytes.subarray(0, 262_144)); // and no more: the connection hangs
    return true;
  };
  const { child, end } = start(index.url(wheel), wheel.sha256);
  while (!fs.existsSync(part()) || fs.statSync(part()).size < 262_144) await sleep(20);
  child.kill("SIGKILL");
  await end;
  index.faults = {};
  expectWhole((await download()).out);
  expect(index.fetches.at(-1)?.range).toBe("bytes=262144-");
});

it("takes the whole file from a server that cannot resume", async () => {
  fs.writeFileSync(part(), wheel.bytes.subarray(0, 50_000));
  index.faults.wheel = (_request, response, { bytes }) => {
    response.writeHead(200, { "content-length": bytes.length }).end(bytes);
    return true;
  };
  expectWhole((await download()).out);
});

it("begins anew when the part left behind is not of this file", async () => {
  fs.writeFileSync(part(), Buffer.alloc(50_000, "x"));
  const { out, err } = await download();
  expectWhole(out);
  expect(err).toContain("does not fit, beginning anew");
});

it("takes a part that is whole already", async () => {
  fs.writeFileSync(part(), wheel.bytes);
  expectWhole((await download()).out);
});

it("drops a part that is longer than the file", async () => {
  fs.writeFileSync(part(), Buffer.concat([wheel.bytes, Buffer.from("more")]));
  expectWhole((await download()).out);
});

it("retries a server that is busy", async () => {
  let busy = 1;
  index.faults.wheel = (_request, response) => {
    if (busy-- <= 0) return false;
    response.writeHead(503).end();
    return true;
  };
  const { out, err } = await download();
  expectWhole(out);
  expect(err).toContain("the server answered 503, trying again");
});

describe("ends in one sentence", () => {
  it("when the bytes are wrong, and keeps none of them", async () => {
    index.faults.wheel = (_request, response, { bytes }) => {
      response.end(Buffer.alloc(bytes.length, "?"));
      return true;
    };
    const { code, err } = await download();
    expect(code).toBe(1);
    expect(err).toMatch(
      new RegExp(`is damaged: its sha256 is [0-9a-f]{64}, expected ${wheel.sha256}; run this again`),
    );
    expect(fs.readdirSync(folder)).toEqual([]);
  });

  it("when the network stays away", async () => {
    index.faults.wheel = (_request, response) => {
      response.destroy();
      return true;
    };
    const { code, err } = await download();
    expect(code).toBe(1);
    expect(err.trimEnd().split("\n").at(-1)).toMatch(
      /could not be downloaded \(.*\); check the network and run this again: it goes on/,
    );
  });

  it("when the disk has no room for what the server announces", async () => {
    index.faults.wheel = (_request, response) => {
      response.writeHead(200, { "content-length": 1e15 });
      response.flushHeaders();
      return true;
    };
    const { code, err } = await download();
    expect(code).toBe(1);
    expect(err).toMatch(
      /needs 1000000700 MB, and the disk of .* has \d+ MB free; make room there, or set TOKENGRAD_CACHE/,
    );
  });
});
