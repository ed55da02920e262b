// Small wheels and a package index on this machine that serves them, with the faults of real networks on demand.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { programPath } from "./checkout.ts";

export interface Wheel {
  readonly file: string;
  readonly name: string;
  readonly sha256: string;
  readonly bytes: Buffer;
}

// Reads { path, files: { name: base64 }, dist } from standard input and writes a wheel with a true RECORD.
const MAKE_WHEEL = `
import base64, hashlib, json, sys, zipfile
job = json.load(sys.stdin)
rows = []
with zipfile.ZipFile(job["path"], "w") as wheel:
    for name, data in job["files"].items():
        data = base64.b64decode(data)
        wheel.writestr(name, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(data)}")
    rows += [f"{name},sha256=wrong,1" for name in job["spoilt"]]
    record = job["dist"] + "/RECORD"
    wheel.writestr(record, "\\n".join(rows + [record + ",,"]) + "\\n")
`;

/**
 * Makes `name-version-py3-none-any.whl` in `folder`.
 * @param spoilt files whose hash in RECORD is to be wrong
 */
export function makeWheel(
  folder: string,
  project: string,
  version: string,
  files: Record<string, string | Buffer>,
  { requires = [], spoilt = [] }: { requires?: string[]; spoilt?: string[] } = {},
): Wheel {
  const stem = `${project.replace(/-/g, "_")}-${version}`;
  const dist = `${stem}.dist-info`;
  const metadata = ["Metadata-Version: 2.1", `Name: ${project}`, `Version: ${version}`];
  metadata.push(
    ...requires
      .flatMap((text) => /extra == "(.*)"/.exec(text)?.[1] ?? [])
      .map((extra) => `Provides-Extra: ${extra}`),
  );
  metadata.push(...requires.map((requirement) => `Requires-Dist: ${requirement}`), "", "");
  const all = {
    ...files,
    [`${dist}/METADATA`]: metadata.join("\n"),
    [`${dist}/WHEEL`]: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
  };
  const encoded = Object.entries(all).map(([name, data]) => [name, Buffer.from(data).toString("base64")]);
  const name = `${stem}-py3-none-any.whl`;
  const file = path.join(folder, name);
  const input = JSON.stringify({ path: file, files: Object.fromEntries(encoded), dist, spoilt });
  const { status, stderr } = spawnSync(programPath("python3"), ["-c", MAKE_WHEEL], {
    input,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  const bytes = fs.readFileSync(file);
  return { file, name, sha256: createHash("sha256").update(bytes).digest("hex"), bytes };
}

export interface Faults {
  /** Answer a request for a wheel by oneself; false lets the server go on. */
  wheel?: (request: http.IncomingMessage, response: http.ServerResponse, wheel: Wheel) => boolean;
}

/** A package index as pip reads it: `url` goes into PIP_INDEX_URL. */
export class Index {
  readonly requests: { agent: string; path: string; range: string | undefined }[] = [];
  faults: Faults = {};
  origin = "";
  readonly #wheels: readonly Wheel[];
  readonly #server: http.Server;

  constructor(wheels: readonly Wheel[]) {
    this.#wheels = wheels;
    this.#server = http.createServer((request, response) => this.#answer(request, response));
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve)); // closing twice is fine
  }

  url(wheel: Wheel): string {
    return `${this.origin}/files/${wheel.name}`;
  }

  /** Variables that make pip know this index and nothing else. */
  pipEnvironment(): Record<string, string> {
    return {
      PIP_CONFIG_FILE: "/dev/null",
      PIP_INDEX_URL: `${this.origin}/simple`,
      PIP_EXTRA_INDEX_URL: "",
      PIP_FIND_LINKS: "",
      PIP_NO_CACHE_DIR: "1",
    };
  }

  /** The requests for wheels that were not pip's own. */
  get fetches(): { path: string; range: string | undefined }[] {
    return this.requests.filter(({ agent, path }) => agent === "tokengrad-setup" && path.includes("/files/"));
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const asked = request.url ?? "";
    const agent = request.headers["user-agent"] ?? "";
    this.requests.push({ agent, path: asked, range: request.headers.range });
    const url = asked.replace(/^http:\/\/[^/]+/, ""); // a whole address when asked as a proxy
    const project = /^\/simple\/([^/]+)\/$/.exec(url)?.[1];
    const wheel = this.#wheels.find(({ name }) => url === `/files/${name}`);
    if (project) {
      const links = this.#wheels
        .filter(({ name }) => name.split("-")[0]?.replace(/_/g, "-") === project)
        .map(({ name, sha256 }) => `<a href="/files/${name}#sha256=${sha256}">${name}</a>`);
      response.setHeader("content-type", "text/html");
      response.statusCode = links.length > 0 ? 200 : 404;
      response.end(`<!DOCTYPE html><html><body>${links.join("\n")}</body></html>`);
    } else if (!wheel) {
      response.writeHead(404).end();
    } else if (!this.faults.wheel?.(request, response, wheel)) {
      this.#send(request, response, wheel.bytes);
    }
  }

  #send(request: http.IncomingMessage, response: http.ServerResponse, bytes: Buffer): void {
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    if (start >= bytes.length) {
      response.writeHead(416, { "content-range": `bytes */${bytes.length}` }).end();
      return;
    }
    const range = { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
    response.writeHead(start > 0 ? 206 : 200, {
      "content-length": bytes.length - start,
      ...(start > 0 ? range : {}),
    });
    response.end(bytes.subarray(start));
  }
}
