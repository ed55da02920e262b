// Ends a process in the middle of the wire's work: `node child.mjs ENDING`.
import { createRequire } from "node:module";

const { Wire } = createRequire(import.meta.url)("../../build/Release/tokengrad.node");
const ending = process.argv[2];
const wire = new Wire({ threads: 2, pieceBytes: 65_536 });

const values = new Float32Array(20_000_000).fill(0.1);
const { id, sizes } = wire.plan({
  text: "",
  textEnds: Uint32Array.of(0, 0),
  values: [values],
  rules: Uint8Array.of(0),
  runs: new Uint32Array(0),
  runRanges: Int32Array.of(0, -1),
  lengths: Float64Array.of(-1),
});
const written = wire.write(
  id,
  sizes.map((/** @type {number} */ size) => new ArrayBuffer(size)),
);
const length = 2_000_000;
const result = wire.open({
  path: ["*"],
  rowLengths: Uint32Array.of(length),
  runCounts: Uint32Array.of(1),
  runs: Uint32Array.of(0, length),
  output: new Float32Array(length),
  packed: false,
});
for (let i = 0; i < 10; i++)
  wire.push(result, Buffer.from(`${i === 0 ? "[[" : ""}${"1.25,".repeat(100_000)}`));

if (ending === "exit") process.exit(7);
if (ending === "throw") throw new Error("on purpose");
if (ending === "dispose") wire.dispose();
written.then(
  () => console.log("written"),
  (/** @type {{ code: string }} */ error) => console.log(error.code),
);
if (ending === "drop") globalThis.gc?.();
