// A trainer in a process of its own that answers at once: `node instant.mjs ROWS LENGTH`. It scores every token -1.25.
import { createServer } from "node:http";

const [rows, length] = process.argv.slice(2).map(Number);
const row = `{"tensors":{"logprobs":{"data":[${Array(length).fill("-1.25")}],"dtype":"float32"}}}`;
const output = Buffer.from(`{"loss":1,"metrics":{},"loss_fn_outputs":[${Array(rows).fill(row)}]}`);
const done = (/** @type {string} */ output) =>
  `{"id":"op-1","status":"TRAINING_OPERATION_STATUS_COMPLETED","output":${output}}`;
const time = "2026-01-01T00:00:00Z";
const policy_state = {
  applied_weights_version: 0,
  target_weights_version: 0,
  trainer_step: 0,
  pending_publish: false,
};
const session = {
  id: "s-1",
  base_model: "tiny",
  created_at: time,
  updated_at: time,
  created_by: "me",
  inference_checkpoints: [],
  training_checkpoints: [],
  metadata: {},
  model_resources_id: "r-1",
  policy_state,
  status: "TRAINING_SESSION_STATUS_RUNNING",
  step: 0,
};

/** @param {string} path @returns {string | Buffer} */
function answer(path) {
  const url = `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}/stored`;
  if (path.endsWith("/upload-url")) return JSON.stringify({ payload_id: "p", upload_url: url });
  if (path.endsWith("/download-url")) return JSON.stringify({ download_url: url });
  if (path === "/stored") return output;
  if (path.endsWith("/forward-backward")) return done('{"loss":1,"metrics":{},"payload_id":"p"}');
  if (path.endsWith("/optim-step")) return done('{"step":1}');
  return path.includes("/operations/") ? done("{}") : JSON.stringify(session);
}

const server = createServer((request, response) => {
  request.resume().on("end", () => {
    response.setHeader("content-type", "application/json");
    response.end(answer(request.url ?? ""));
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(/** @type {import("node:net").AddressInfo} */ (server.address()).port);
});
