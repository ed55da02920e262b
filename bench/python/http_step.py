"""Contestants of the benchmark of steps: training loops over http.client, with one body for each pass.

Run with a style behind the arguments of all: `guide` is a loop over samples with the standard library's json, `packed` holds all
positions in one tensor and uses orjson, `compiled` is that with torch.compile.
"""
import array
import http.client
import json
import urllib.parse
import uuid

import torch

from losses import Listed, Packed
from steps import LOSS, REST, URL, load, serve_steps

(STYLE,) = REST


class Trainer:
    """A session of the API."""

    def __init__(self, url):
        self.connections = {}
        self.url = url
        self.path = None
        resources = json.loads(self.post("/v1/rl/model-resources", b'{"base_model":"instant"}'))
        body = json.dumps({"model_resources_id": resources["id"]}).encode()
        self.path = f"/v1/rl/training-sessions/{json.loads(self.post('/v1/rl/training-sessions', body))['id']}"

    def ask(self, method, url, body=None, headers={}):
        address = urllib.parse.urlsplit(url)
        if address.netloc not in self.connections:
            self.connections[address.netloc] = http.client.HTTPConnection(address.netloc)
        connection = self.connections[address.netloc]
        connection.request(method, address.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {address.path}: {response.status}")
        return answer

    def post(self, path, body=b"", **headers):
        headers = {"authorization": "Bearer bench", "content-type": "application/json", **headers}
        return self.ask("POST", self.url + path, body, headers)

    def run(self, kind, body):
        """The answer to an operation, which is completed at once."""
        return self.post(f"{self.path}/operations/{kind}", body, **{"idempotency-key": str(uuid.uuid4())})

    def outputs(self, answer, loads):
        """The outputs of a forward pass, wherever they are."""
        output = loads(answer)["output"]
        if "payload_id" in output:
            found = self.post(f"{self.path}/payloads/{output['payload_id']}/download-url")
            output = loads(self.ask("GET", loads(found)["download_url"]))
        return [sample["tensors"]["logprobs"]["data"] for sample in output["loss_fn_outputs"]]


def sample(tokens, targets, weights):
    return {
        "model_input": {"chunks": [{"encoded_text": {"tokens": tokens}}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": targets, "dtype": "int64"},
            "weights": {"data": weights, "dtype": "float32"},
        },
    }


def scoring(samples):
    return {
        "loss": {"type": "LOSS_TYPE_CROSS_ENTROPY"},
        "samples": samples,
        "forward_only": True,
        "return_loss_fn_outputs": True,
    }


def custom(samples, rows):
    gradients = [{"data": row, "dtype": "D_TYPE_FLOAT32"} for row in rows]
    return {"samples": samples, "gradients": gradients}


class Guide:
    """One tensor per sample, Python lists, the standard library's json."""

    versions = ()

    def __init__(self, batch, tokens):
        self.loss_of = Listed(batch).loss(LOSS)
        rows = zip(tokens.tolist(), batch.weights.tolist())
        self.samples = [sample(row[:-1], row[1:], weights) for row, weights in rows]

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(body):
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()

    def gradients(self, rows):
        logprobs = [torch.tensor(row, requires_grad=True) for row in rows]
        loss = self.loss_of(logprobs)
        loss.backward()
        return loss.item(), [row.grad.tolist() for row in logprobs]


class Best:
    """One tensor for all samples, numpy's rows, orjson."""

    def __init__(self, batch, tokens, compiled):
        import orjson

        self.versions = (f"orjson {orjson.__version__}",)
        self.loads = orjson.loads
        self.dumps = lambda body: orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        self.shape = batch.weights.shape
        self.loss_of = Packed(batch, flat=False).loss(LOSS, compiled)
        self.samples = [sample(row[:-1], row[1:], weights) for row, weights in zip(tokens, batch.weights)]

    def gradients(self, rows):
        values = array.array("f")
        for row in rows:
            values.extend(array.array("f", row))
        logprobs = torch.frombuffer(values, dtype=torch.float32).view(self.shape).requires_grad_()
        loss = self.loss_of(logprobs)
        loss.backward()
        return loss.item(), logprobs.grad.numpy()


batch, tokens = load()
style = Guide(batch, tokens) if STYLE == "guide" else Best(batch, tokens, compiled=STYLE == "compiled")
trainer = Trainer(URL)


def step(clock):
    answer = trainer.run("forward-backward", style.dumps(scoring(style.samples)))
    rows = trainer.outputs(answer, style.loads)
    clock.end("forward")
    loss, gradients = style.gradients(rows)
    clock.end("loss")
    trainer.run("custom-forward-backward", style.dumps(custom(style.samples, gradients)))
    clock.end("custom")
    trainer.run("optim-step", style.dumps({"adam_params": {"learning_rate": 1e-4}}))
    clock.end("optim")
    return loss


serve_steps(style.versions, step)
