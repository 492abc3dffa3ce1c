"""Every random number of a run is a pure function of the seed and of its use."""

import hashlib

import torch


def derive(seed: int, *counters: int | str) -> int:
    """A seed for one use, such as derive(seed, "augment", epoch, step). Different uses have unrelated seeds."""
    text = "/".join(map(str, (seed, *counters))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def generator_for(device: torch.device | str, seed: int, *counters: int | str) -> torch.Generator:
    """A generator on `device` for one use."""
    return torch.Generator(device).manual_seed(derive(seed, *counters))


def epoch_order(n: int, seed: int, epoch: int) -> torch.Tensor:
    """The order in which epoch `epoch` visits n samples."""
    return torch.randperm(n, generator=generator_for("cpu", seed, "order", epoch))


def shuffled_once(n: int) -> torch.Tensor:
    """A random order of n files, the same for all runs: folders are sorted by class, but any part should show all."""
    return torch.randperm(n, generator=generator_for("cpu", 0, "files"))


def sharded_order(shards: torch.Tensor, seed: int, epoch: int, at_once: int) -> torch.Tensor:
    """The order in which an epoch visits samples that lie in `shards`: `at_once` random shards are shuffled together.

    Reads are thus limited to a few shards at a time, and every sample is visited once.
    """
    generator = generator_for("cpu", seed, "order", epoch)
    turn = torch.randperm(int(shards.max()) + 1, generator=generator) // at_once
    order = torch.randperm(len(shards), generator=generator)
    return order[turn[shards[order]].argsort(stable=True)]
