"""The PyTorch peer of the benchmark of losses: runs them on its parent's batches, one command a line, one JSON line back.

    load SAMPLESxPOSITIONS      reads the batch in the folder of that name
    answer LOSS STYLE           runs once: the loss, the milliseconds of that first run, the gradients as gradients.f32
    time LOSS STYLE RUNS        the milliseconds of each run, after one that does not count

Run as `peer.py THREADS DEVICE` in the folder of the batches. Styles: `list` is a loop over one tensor per sample; `flat` holds the
trained tokens of all samples in one tensor, `padded` all positions as a matrix; `compiled-flat` and `compiled-padded` are
torch.compile of these. What a packed style needs besides the log-probabilities is prepared when the batch is loaded.
"""
import json
import os
import platform
import sys
import time

import numpy as np
import torch
from torch.nn.functional import logsigmoid

SFT_BETA = 0.1
DPO_BETA = 0.1
CLIP = 0.2
KL_BETA = 0.04


def tensor(array):
    return torch.from_numpy(array).to(sys.argv[2])


def clipped_surrogate(lp, old, advantages):
    ratio = torch.exp(lp - old)
    return torch.min(ratio * advantages, torch.clamp(ratio, 1 - CLIP, 1 + CLIP) * advantages)


def k3(lp, reference):
    difference = reference - lp
    return torch.exp(difference) - difference - 1


def preference(chosen, rejected):
    return -logsigmoid(DPO_BETA * (chosen - rejected))


class Listed:
    """One tensor per sample and a Python loop over them. Losses of one sample; `dpo` gives its score."""

    def __init__(self, batch):
        rows = [[tensor(row) for row in matrix] for matrix in (batch.weights, batch.old, batch.reference)]
        self.samples = list(zip(*rows, batch.advantages.tolist()))
        self.leaves = [tensor(row).requires_grad_() for row in batch.logprobs]

    @staticmethod
    def sft(lp, weights, _old, reference, _advantage):
        drift = ((lp - reference) ** 2 * weights).sum() / weights.sum()
        return (-lp * weights).sum() / weights.sum() + SFT_BETA * drift

    @staticmethod
    def reinforce(lp, weights, _old, _reference, advantage):
        return -(advantage * lp * weights).sum() / weights.sum()

    @staticmethod
    def dpo(lp, weights, _old, reference, _advantage):
        return ((lp - reference) * weights).sum()

    @staticmethod
    def grpo(lp, weights, old, reference, advantage):
        value = clipped_surrogate(lp, old, advantage) - KL_BETA * k3(lp, reference)
        return -(value * weights).sum() / weights.sum()

    def loss(self, name):
        function = getattr(self, name)

        def run():
            values = [function(lp, *sample) for lp, sample in zip(self.leaves, self.samples)]
            if name == "dpo":
                values = [preference(*pair) for pair in zip(values[0::2], values[1::2])]
            return torch.stack(values).mean()

        return run

    def full_gradients(self):
        return np.stack([leaf.grad.cpu().numpy() for leaf in self.leaves])


class Packed:
    """All samples in one tensor: the trained tokens alone, or every position as a matrix. Means are folded into weights."""

    def __init__(self, batch, flat):
        self.trained = np.nonzero(batch.weights) if flat else ...
        samples = len(batch.weights)
        counts = batch.weights.sum(1, keepdims=True)
        spread = np.broadcast_to(batch.advantages[:, None], batch.weights.shape)
        self.shape = batch.weights.shape
        self.weights = self.pick(batch.weights)
        self.shares = self.pick(batch.weights / counts / samples)
        self.old = self.pick(batch.old)
        self.reference = self.pick(batch.reference)
        self.advantages = self.pick(spread) if flat else tensor(batch.advantages[:, None])
        self.owners = tensor(self.trained[0]) if flat else None
        self.zeros = torch.zeros(samples, device=sys.argv[2])
        self.leaves = [self.pick(batch.logprobs).requires_grad_()]

    def pick(self, matrix):
        return tensor(np.ascontiguousarray(matrix[self.trained]))

    def sample_sums(self, x):
        return x.sum(1) if self.owners is None else self.zeros.index_add(0, self.owners, x)

    def sft(self, lp):
        difference = lp - self.reference
        return ((SFT_BETA * difference * difference - lp) * self.shares).sum()

    def reinforce(self, lp):
        return -(lp * self.advantages * self.shares).sum()

    def dpo(self, lp):
        scores = self.sample_sums((lp - self.reference) * self.weights)
        return preference(scores[0::2], scores[1::2]).mean()

    def grpo(self, lp):
        value = KL_BETA * k3(lp, self.reference) - clipped_surrogate(lp, self.old, self.advantages)
        return (value * self.shares).sum()

    def loss(self, name, compiled=False):
        function = getattr(self, name)
        if compiled:
            function = torch.compile(function, dynamic=False, fullgraph=True)
        return lambda: function(self.leaves[0])

    def full_gradients(self):
        full = np.zeros(self.shape, np.float32)
        full[self.trained] = self.leaves[0].grad.cpu().numpy()
        return full


class Batch:
    """The arrays of a folder: float32, a row of positions for each sample, one advantage for each sample."""

    def __init__(self, folder):
        self.folder = folder
        shape = [int(count) for count in folder.split("x")]
        for name in ("weights", "logprobs", "old", "reference"):
            setattr(self, name, np.fromfile(f"{folder}/{name}.f32", np.float32).reshape(shape))
        self.advantages = np.fromfile(f"{folder}/advantages.f32", np.float32)
        self.prepared = {}
        self.losses = {}

    def prepare(self, style):
        if style not in self.prepared:
            self.prepared[style] = Listed(self) if style == "list" else Packed(self, flat=style == "flat")
        return self.prepared[style]

    def stepper(self, name, style):
        """The style's tensors, and a function that runs forward and backward and gives the loss."""
        layout = style.removeprefix("compiled-")
        prepared = self.prepare(layout)
        if (name, style) not in self.losses:
            self.losses[name, style] = prepared.loss(name) if layout == style else prepared.loss(name, compiled=True)
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


def milliseconds(work):
    start = time.perf_counter()
    result = work()
    return result, 1e3 * (time.perf_counter() - start)


def obey(batch, command, *arguments):
    if command == "load":
        return Batch(*arguments), {}
    prepared, step = batch.stepper(*arguments[:2])
    if command == "answer":
        loss, first = milliseconds(step)
        prepared.full_gradients().tofile(f"{batch.folder}/gradients.f32")
        return batch, {"loss": loss, "first": first}
    step()
    return batch, {"times": [milliseconds(step)[1] for _ in range(int(arguments[2]))]}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    print(json.dumps({"version": f"Python {platform.python_version()}, torch {torch.__version__}"}), file=answers, flush=True)
    batch = None
    for line in sys.stdin:
        try:
            batch, answer = obey(batch, *line.split())
        except Exception as error:  # told to the parent, which leaves the row out
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)


main()
