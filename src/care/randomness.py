"""Every random number of a run is a pure function of its seed and of where it is used."""

import hashlib

import torch


def derive(seed: int, *counters: int | str) -> int:
    """A seed for one use, such as derive(seed, "augment", epoch, step): uses that differ in anything are unrelated."""
    text = "/".join(map(str, (seed, *counters))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def generator_for(device: torch.device | str, seed: int, *counters: int | str) -> torch.Generator:
    """A generator on `device` for one use."""
    return torch.Generator(device).manual_seed(derive(seed, *counters))


def epoch_order(n: int, seed: int, epoch: int) -> torch.Tensor:
    """The order in which epoch `epoch` visits n samples."""
    return torch.randperm(n, generator=generator_for("cpu", seed, "order", epoch))
