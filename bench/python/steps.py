"""What the Python contestants of the benchmark of steps share: the batch, the clock, the commands.

    turn MILLISECONDS    steps until so much time has passed, at least one
    memory               what this process holds

They are run as `SCRIPT THREADS WORKLOAD LOSS URL ...` in the folder of the batches.
"""
import os
import resource
import sys
import time

import numpy as np
import torch

from losses import Batch
from protocol import serve

THREADS, WORKLOAD, LOSS, URL, *REST = sys.argv[1:]
STATUS = "/proc/self/status"


def resident(field):
    """MiB that this process holds: now, `VmRSS`, or at most, `VmHWM`."""
    if os.path.exists(STATUS):
        with open(STATUS) as lines:
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (2**20 if sys.platform == "darwin" else 2**10)


def load():
    """The batch and, one longer than its rows, each sample's token ids; the target of a position is the token behind it."""
    torch.set_num_threads(int(THREADS))
    batch = Batch(WORKLOAD)
    tokens = np.fromfile(f"{WORKLOAD}/tokens.i32", np.int32).reshape(len(batch.weights), -1)
    return batch, tokens


class Clock:
    """Milliseconds of the parts of a step, each from the end of the one before."""

    def __init__(self):
        self.times = {}
        self.last = time.perf_counter()

    def end(self, part):
        now = time.perf_counter()
        self.times[part] = 1e3 * (now - self.last)
        self.last = now


def serve_steps(versions, step):
    """`step` takes a `Clock`, for which it ends the parts forward, loss, custom and optim, and gives the loss."""

    def run():
        clock = Clock()
        loss = step(clock)
        return loss, {**clock.times, "whole": sum(clock.times.values())}

    def turn(milliseconds):
        end = time.perf_counter() + float(milliseconds) / 1e3
        loss, times = run()
        all_times = [times]
        while time.perf_counter() < end:
            loss, times = run()
            all_times.append(times)
        return {"loss": loss, "times": all_times}

    before = resident("VmRSS")
    commands = {"turn": turn, "memory": lambda: {"before": before, "peak": resident("VmHWM")}}
    serve([f"torch {torch.__version__}", *versions], lambda command, *words: commands[command](*words))
