"""A contestant of the benchmark of steps: a training loop with the vendor's own client, package `together`, and PyTorch."""
import together
import torch
from together.post_training import AdamParams, ModelResourcesClient

from losses import Listed
from steps import LOSS, URL, load, serve_steps

batch, tokens = load()
loss_of = Listed(batch).loss(LOSS)
samples = [
    {
        "model_input": {"chunks": [{"encoded_text": {"tokens": row[:-1].tolist()}}]},
        "loss_fn_inputs": {"target_tokens": row[1:].tolist(), "weights": weights.tolist()},
    }
    for row, weights in zip(tokens, batch.weights)
]
resources = ModelResourcesClient.create(base_model="instant", api_key="bench", base_url=URL)
trainer = resources.create_session().trainer


def step(clock):
    scored = trainer.forward(samples=samples, loss={"type": "LOSS_TYPE_CROSS_ENTROPY"})
    clock.end("forward")
    logprobs = [torch.tensor(output.tensors["logprobs"].data, requires_grad=True) for output in scored.loss_fn_outputs]
    loss = loss_of(logprobs)
    loss.backward()
    gradients = [{"data": row.grad} for row in logprobs]
    clock.end("loss")
    trainer.custom_forward_backward(samples=samples, gradients=gradients)
    clock.end("custom")
    trainer.optim_step(adam_params=AdamParams(learning_rate=1e-4))
    clock.end("optim")
    return loss.item()


serve_steps([f"together {together.__version__}"], step)
