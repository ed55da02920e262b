"""The PyTorch peer of the benchmark of losses: runs them on its parent's batches.

    load SAMPLESxPOSITIONS      reads the batch in the folder of that name
    answer LOSS STYLE           runs once: the loss, the milliseconds of that first run, the gradients as gradients.f32
    time LOSS STYLE RUNS        the milliseconds of each run, after one that does not count

Run as `peer.py THREADS DEVICE` in the folder of the batches. Styles: `list` is a loop over one tensor per sample; `flat` holds the
trained tokens of all samples in one tensor, `padded` all positions as a matrix; `compiled-flat` and `compiled-padded` are
torch.compile of these. What a packed style needs besides the log-probabilities is prepared when the batch is loaded.
"""
import sys
import time

import numpy as np
import torch

from losses import Batch, Listed, Packed
from protocol import serve

DEVICE = sys.argv[2]


class ListStyle:
    def __init__(self, batch):
        self.prepared = Listed(batch, DEVICE)
        self.leaves = [torch.from_numpy(row).to(DEVICE).requires_grad_() for row in batch.logprobs]

    def loss(self, name, compiled):
        assert not compiled
        function = self.prepared.loss(name)
        return lambda: function(self.leaves)

    def full_gradients(self):
        return np.stack([leaf.grad.cpu().numpy() for leaf in self.leaves])


class PackedStyle:
    def __init__(self, batch, flat):
        self.prepared = Packed(batch, flat, DEVICE)
        self.shape = batch.weights.shape
        self.leaves = [self.prepared.pick(batch.logprobs).requires_grad_()]

    def loss(self, name, compiled):
        function = self.prepared.loss(name, compiled)
        return lambda: function(self.leaves[0])

    def full_gradients(self):
        full = np.zeros(self.shape, np.float32)
        full[self.prepared.trained] = self.leaves[0].grad.cpu().numpy()
        return full


class Peer:
    def load(self, folder):
        self.batch = Batch(folder)
        self.prepared = {}
        self.losses = {}
        return {}

    def prepare(self, style):
        if style not in self.prepared:
            self.prepared[style] = ListStyle(self.batch) if style == "list" else PackedStyle(self.batch, style == "flat")
        return self.prepared[style]

    def stepper(self, name, style):
        """The style's tensors, and a function that runs forward and backward and gives the loss."""
        layout = style.removeprefix("compiled-")
        prepared = self.prepare(layout)
        if (name, style) not in self.losses:
            self.losses[name, style] = prepared.loss(name, compiled=layout != style)
        loss = self.losses[name, style]

        def step():
            for leaf in prepared.leaves:
                leaf.grad = None
            value = loss()
            value.backward()
            if value.is_cuda:
                torch.cuda.synchronize()
            return value.item()

        return prepared, step

    def answer(self, name, style):
        prepared, step = self.stepper(name, style)
        loss, first = milliseconds(step)
        prepared.full_gradients().tofile(f"{self.batch.folder}/gradients.f32")
        return {"loss": loss, "first": first}

    def time(self, name, style, runs):
        _, step = self.stepper(name, style)
        step()
        return {"times": [milliseconds(step)[1] for _ in range(int(runs))]}


def milliseconds(work):
    start = time.perf_counter()
    result = work()
    return result, 1e3 * (time.perf_counter() - start)


torch.set_num_threads(int(sys.argv[1]))
peer = Peer()
commands = {"load": peer.load, "answer": peer.answer, "time": peer.time}
serve([f"torch {torch.__version__}"], lambda command, *words: commands[command](*words))
