"""Epochs over pictures that are decoded to a small size, with a cache or without."""

import torch

from care.data import batches
from care.data.streamed.opening import open_pictures

N, SIDE = 22, 8
EVERYTHING = list(range(N))
ROW = 3 * SIDE * SIDE + 2


def epoch(folder, cache=None, whole=True, seed=0, workers=1):
    """The batches of an epoch in a random order, put back into the order of the samples."""
    samples = open_pictures(folder, "train", SIDE, workers=workers, cache=cache)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    found = torch.cat(list(batches(samples, order.split(5), "cpu", whole=whole)))
    return found[order.argsort()]


def only(cache, kind):
    (file,) = cache.glob(f"*.{kind}")
    return file
