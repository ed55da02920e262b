"""The losses of the benchmarks in PyTorch, as a loop over samples and as packed tensors, and the batches that they run on."""
import numpy as np
import torch
from torch.nn.functional import logsigmoid

SFT_BETA = 0.1
DPO_BETA = 0.1
CLIP = 0.2
KL_BETA = 0.04


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

    def __init__(self, batch, device="cpu"):
        rows = [[torch.from_numpy(row).to(device) for row in matrix] for matrix in (batch.weights, batch.old, batch.reference)]
        self.samples = list(zip(*rows, batch.advantages.tolist()))

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
        """A function of the samples' log-probabilities: a list of tensors."""
        function = getattr(self, name)

        def run(logprobs):
            values = [function(lp, *sample) for lp, sample in zip(logprobs, self.samples)]
            if name == "dpo":
                values = [preference(*pair) for pair in zip(values[0::2], values[1::2])]
            return torch.stack(values).mean()

        return run


class Packed:
    """All samples in one tensor: the trained tokens alone, or every position as a matrix. Means are folded into weights."""

    def __init__(self, batch, flat, device="cpu"):
        self.device = device
        self.trained = np.nonzero(batch.weights) if flat else ...
        samples = len(batch.weights)
        counts = batch.weights.sum(1, keepdims=True)
        spread = np.broadcast_to(batch.advantages[:, None], batch.weights.shape)
        self.weights = self.pick(batch.weights)
        self.shares = self.pick(batch.weights / counts / samples)
        self.old = self.pick(batch.old)
        self.reference = self.pick(batch.reference)
        self.advantages = self.pick(spread) if flat else self.tensor(batch.advantages[:, None])
        self.owners = self.tensor(self.trained[0]) if flat else None
        self.zeros = torch.zeros(samples, device=device)

    def tensor(self, array):
        return torch.from_numpy(array).to(self.device)

    def pick(self, matrix):
        return self.tensor(np.ascontiguousarray(matrix[self.trained]))

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
        """A function of one tensor that holds all log-probabilities."""
        function = getattr(self, name)
        return torch.compile(function, dynamic=False, fullgraph=True) if compiled else function


class Batch:
    """The arrays of a folder: float32, a row of positions for each sample, one advantage for each sample."""

    def __init__(self, folder):
        self.folder = folder
        shape = [int(count) for count in folder.split("x")]
        for name in ("weights", "logprobs", "old", "reference"):
            setattr(self, name, np.fromfile(f"{folder}/{name}.f32", np.float32).reshape(shape))
        self.advantages = np.fromfile(f"{folder}/advantages.f32", np.float32)
