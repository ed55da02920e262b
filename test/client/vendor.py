# The service's own Python client against a local trainer: `begin` starts a session and trains, `go_on ID` joins one.
# Prints what it saw as one line of JSON.
import json
import random
import sys
import tempfile

import numpy
from together import Together
from together.post_training import ModelResourcesClient, SessionClient, download_checkpoint

LENGTH = 60


def sample(row):
    tokens = [random.Random(row * 1000 + i).randrange(256) for i in range(LENGTH + 1)]
    return {
        "model_input": {"chunks": [{"encoded_text": {"tokens": tokens[:-1]}}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": tokens[1:], "dtype": "int64"},
            "weights": {"data": [0.0] * 20 + [1.0] * (LENGTH - 20), "dtype": "float32"},
        },
    }


def logprobs(session, samples):
    result = session.trainer.forward(samples=samples, loss={"type": "cross_entropy"})
    return [output.tensors["logprobs"].data for output in result.loss_fn_outputs]


def train(session, samples):
    rows = logprobs(session, samples)
    gradients = [{"data": numpy.asarray(row, dtype=numpy.float32) * 0.01, "dtype": "D_TYPE_FLOAT32"} for row in rows]
    session.trainer.custom_forward_backward(samples=samples, gradients=gradients)
    return int(session.trainer.optim_step(adam_params={"learning_rate": 1e-3}).step)


def begin():
    seen = {}
    resources = ModelResourcesClient.create(base_model="local/tiny")
    session = resources.create_session()
    samples = [sample(row) for row in range(4)]
    seen["step"] = train(session, samples)
    seen["version"] = int(session.trainer.weights_sync().weights_version)
    prompt = {"chunks": [{"encoded_text": {"tokens": [72, 101, 108]}}]}
    drawn = session.generator.sample(prompt, num_samples=2, sampling_params={"max_tokens": 5, "seed": 1})
    seen["sampled"] = [len(sequence.tokens) for sequence in drawn.sequences]
    seen["prompt"] = len(session.generator.compute_logprobs(prompt))
    session.create_training_checkpoint()
    saved = session.create_inference_checkpoint()
    client = Together()
    seen["checkpoints"] = sorted(c.type for c in client.post_training.checkpoints.list(session_id=session.session_id).data)
    with tempfile.TemporaryDirectory() as folder:
        seen["files"] = [path.stat().st_size for path in download_checkpoint(client, saved.id, output_dir=folder)]
    # Half a megabyte and more in both directions.
    large = [sample(row) for row in range(1200)]
    seen["large"] = len(logprobs(session, large))
    seen["step"] = train(session, large)
    seen["logprobs"] = logprobs(session, samples)
    seen["samples"] = samples
    seen["session"] = session.session_id
    session.detach()
    resources.detach()
    return seen


def go_on(session_id):
    session = SessionClient.attach(session_id=session_id)
    samples = [sample(row) for row in range(4)]
    before = logprobs(session, samples)
    step = train(session, samples)
    after = logprobs(session, samples)
    session.detach()
    return {"before": before, "step": step, "after": after}


output = begin() if sys.argv[1] == "begin" else go_on(sys.argv[2])
print(json.dumps(output))
