"""What a checkpoint of each step holds, and whether it does."""

import torch


def equal(a, b):
    """Equal in value and in type, of keys too, all the way down."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return sorted(map(repr, a)) == sorted(map(repr, b)) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b or (a != a and b != b)


def at(step):
    """The tensors and state that belong to a step."""
    generator = torch.Generator().manual_seed(step)
    tensors = {f"model/{i}": torch.randn(400, generator=generator) for i in range(20)}
    return tensors | {"queue": torch.full((3, 5), step)}, {"step": step, "epoch": step / 7, "nested": {"a": [step]}}


def holds(checkpoint, step):
    tensors, state = at(step)
    return checkpoint.step == step and equal(checkpoint.tensors, tensors) and equal(checkpoint.state, state)


def names(folder):
    return sorted(path.name for path in folder.iterdir())
