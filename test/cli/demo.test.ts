// The demo's own parts: reading pairs, progress lines, curves, and how it ends when it is stopped.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { drawCurves } from "../../src/cli/demo/curves.ts";
import { decodeTokens, encodeText, holdOut, readPairs } from "../../src/cli/demo/data.ts";
import { batches } from "../../src/cli/demo/random.ts";
import { Progress } from "../../src/progress.ts";
import { seededRandom } from "../../src/training/order.ts";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "tokengrad-demo-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const pair = (n: number) => ({ prompt: `Q: ${n}?\nA:`, chosen: " Yes.\n", rejected: " no\n" });
const lines = (count: number) => Array.from({ length: count }, (_, n) => JSON.stringify(pair(n)));
const file = (text: string | Buffer) => {
  const path = join(folder, `${Math.random()}.jsonl`);
  writeFileSync(path, text);
  return path;
};

test("the shipped pairs are read, at least 200 of them", async () => {
  const pairs = await readPairs(join(root, "examples/data/preferences.jsonl"), 256);
  expect(pairs.length).toBeGreaterThanOrEqual(200);
  const { train, heldOut } = holdOut(pairs);
  expect(train.length + heldOut.length).toBe(pairs.length);
  expect(heldOut.some((one) => train.includes(one))).toBe(false);
});

test("blank lines, CRLF and a byte order mark are fine", async () => {
  expect(await readPairs(file(`\ufeff${lines(50).join("\n")}`), 256)).toHaveLength(50);
  expect(await readPairs(file(`${lines(50).join("\r\n\r\n")}\r\n`), 256)).toHaveLength(50);
});

test.each<[string, string | Buffer, string]>([
  ["broken JSON", [...lines(2), "{", ...lines(50)].join("\n"), ":3: expected a JSON object"],
  ["a missing key", [...lines(1), '{"prompt":"a","chosen":"b"}'].join("\n"), ":2: rejected"],
  ["an unknown key", '{"prompt":"a","chosen":"b","rejected":"c","x":1}', ":1"],
  ["an empty answer", '{"prompt":"a","chosen":"","rejected":"c"}', ":1: chosen"],
  ["a list", "[1]", ":1"],
  ["one answer twice", '{"prompt":"a","chosen":"b","rejected":"b"}', ":1: expected two answers"],
  ["Latin-1", Buffer.from(lines(50).join("\n").replaceAll("Yes", "Zoë"), "latin1"), "of UTF-8 text"],
  ["too few pairs", lines(49).join("\n"), "expected at least 50 pairs, got 49"],
  ["nothing", "", "expected at least 50 pairs, got 0"],
  [
    "a long pair",
    JSON.stringify({ ...pair(1), prompt: "é".repeat(150) }),
    "of at most 256 bytes together, got 306",
  ],
])("%s is refused by file and line", async (_, text, message) => {
  const path = file(text);
  await expect(readPairs(path, 256)).rejects.toThrow(path);
  await expect(readPairs(path, 256)).rejects.toThrow(message);
});

test("a missing file and a folder are refused", async () => {
  await expect(readPairs(join(folder, "none"), 256)).rejects.toMatchObject({ code: "ERR_INPUT" });
  await expect(readPairs(folder, 256)).rejects.toMatchObject({ code: "ERR_INPUT" });
});

test("text survives its tokens, with the end of text left out", () => {
  expect(decodeTokens([...encodeText("Zoë, 5 €"), 256])).toBe("Zoë, 5 €");
});

test("batches give every item once before any again, the same for the same seed", () => {
  const drawn = () => {
    const next = batches([0, 1, 2, 3, 4, 5, 6], 3, seededRandom(3));
    return Array.from({ length: 7 }, () => next.next().value).flat();
  };
  for (let round = 0; round < 3; round++) {
    expect(
      drawn()
        .slice(7 * round, 7 * round + 7)
        .sort(),
    ).toEqual([0, 1, 2, 3, 4, 5, 6]);
  }
  expect(drawn()).toEqual(drawn());
});

const written = (isTTY: boolean, steps: number, columns = 80) => {
  const stream = { isTTY, columns, write: vi.fn() };
  const progress = new Progress("stage", steps, stream as never);
  for (let done = 1; done <= steps; done++)
    progress.update({ done, tokens: 100 * done, figures: { loss: 1 / done } });
  return stream.write.mock.calls.map(([text]) => text as string);
};

test("without a terminal progress is a few plain lines, the last one whole", () => {
  const calls = written(false, 100);
  expect(calls).toHaveLength(5);
  expect(calls[0]).toMatch(/^stage +20\/100 {2}loss 0\.050 {2}\d+k? tokens\/s {2}\d+ s left\n$/);
  expect(calls[4]).toMatch(/^stage +100\/100 {2}loss 0\.010 .* s\n$/);
  expect(calls.join("")).not.toContain("\r");
  expect(written(false, 3)).toHaveLength(3);
});

test("on a terminal one line is redrawn and ends with a new line", () => {
  const calls = written(true, 100);
  expect(calls.every((text) => text.startsWith("\r"))).toBe(true);
  expect(calls.at(-1)).toContain("100/100");
  expect(calls.filter((text) => text.endsWith("\n"))).toHaveLength(1);
});

test("a redrawn line never wraps", () => {
  for (const columns of [40, 80, 200]) {
    for (const text of written(true, 100, columns)) {
      expect(text.replace("\r\x1b[K", "").trimEnd().length).toBeLessThan(columns);
    }
  }
});

test("curves are drawn with finite coordinates, whatever the values", () => {
  const svg = drawCurves([
    { title: "a < b & c", unit: "nats", values: [3, 2, 1] },
    { title: "flat", unit: "x", values: [1, 1, 1] },
    { title: "one", unit: "x", values: [2] },
  ]);
  expect(svg).toContain("a &lt; b &amp; c");
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  expect(svg.match(/<polyline/g)).toHaveLength(6);
});

test("Ctrl-C ends the demo with code 130 and leaves nothing behind", async () => {
  const scratch = mkdtempSync(join(folder, "scratch-"));
  const child = spawn(process.execPath, [join(root, "dist/cli/main.js"), "demo", "--out", folder], {
    cwd: root,
    env: { ...process.env, TMPDIR: scratch },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  await vi.waitUntil(() => output.includes("local trainer at"), { timeout: 25_000, interval: 50 });
  expect(readdirSync(scratch)).toHaveLength(1);
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([130, null]);
  expect(output).toMatch(/\nstopped\n$/);
  expect(readdirSync(scratch)).toEqual([]);
});
