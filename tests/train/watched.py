"""Training data that remember which of their rows were read for training, and a watcher that stops a run."""

import dataclasses
import os
import signal

import torch

from care.train import Progress


class Watched(torch.Tensor):
    """A tensor that notes the rows that are selected from it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        if function is torch.Tensor.index_select and hasattr(args[0], "rows"):  # slices, for the monitor, have none
            args[0].rows.append(args[2].tolist())
            return result.as_subclass(torch.Tensor)
        return result


def progress(job):
    """The job with training data that are watched, and the list of the batches of rows that will be read."""
    inputs, rows = job.samples.stored.as_subclass(Watched), []
    inputs.rows = rows
    return dataclasses.replace(job, samples=dataclasses.replace(job.samples, stored=inputs)), rows


class StopAfter(Progress):
    """Asks to stop after so many steps, as Ctrl-C would."""

    def __init__(self, steps, sent=signal.SIGINT):
        self.left, self.sent = steps, sent

    def step(self, *_):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.sent)
