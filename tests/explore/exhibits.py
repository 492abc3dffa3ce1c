"""A gallery in a moment: colored noise, and encoders that are one matrix."""

import threading
from contextlib import contextmanager

import torch

from care.augment import simclr
from care.augment.coordinates import IMAGE_NAMES
from care.data import Samples
from care.evaluate import Embedder
from care.explore import ExploreServer, Gallery, build_index
from care.steer import LearnedRotation

CPU = torch.device("cpu")
CLASSES = ("<b>red</b>", "green & blue", "gray")
PIXELS, D = 12, 6


def noise(n=40, seed=0):
    """Noise with a class each; images of the last class are gray."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (n, 3, PIXELS, PIXELS), generator=generator, dtype=torch.uint8)
    labels = torch.arange(n) % len(CLASSES)
    images[labels == 0, 0] = 255
    images[labels == 2] = images[labels == 2, :1]
    return Samples(images, labels, CLASSES, name="noise")


def matrix_of(size, seed=0, d=D):
    return torch.randn(3 * size * size, d, generator=torch.Generator().manual_seed(seed))


def embedder(samples, size=PIXELS, seed=0, **changes):
    """An encoder f(x) = Wᵀ (x − ½), on views of `size` pixels."""
    W = matrix_of(size, seed)
    embed = changes.pop("embed", lambda x: {"embedding": (x.flatten(1) - 0.5) @ W, "backbone": x.flatten(1)})
    return Embedder(embed, samples, simclr(size), "simclr", CPU, **changes)


def some_rotation(d=D, m=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(d, m, generator=generator)).Q
    A = 0.4 * torch.randn(len(IMAGE_NAMES), m, m, generator=generator)
    return LearnedRotation(IMAGE_NAMES, 1.0, basis, (A - A.mT) / 2)


def small_gallery(k=5, samples=None):
    """One model with a learned rotation and one without, which gets smaller views."""
    samples = samples or noise()
    plain = build_index("<i>plain</i>", embedder(samples, size=8, seed=1), note="care steer makes one")
    return Gallery([build_index("steered", embedder(samples), some_rotation()), plain], k)


@contextmanager
def serving(gallery, server=None):
    """A server that answers in a thread."""
    server = server or ExploreServer()
    thread = threading.Thread(target=server.serve, args=(gallery,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
