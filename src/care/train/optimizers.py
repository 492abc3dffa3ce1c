"""Optimizers by name, including LARS and Muon, with a learning rate that can be a tensor on the GPU."""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from care.train.lars import LARS
from care.train.muon import Muon

Name = Literal["adam", "adamw", "sgd", "lars", "muon"]


def build_optimizer(
    parameters: nn.Module | Iterable[tuple[str, nn.Parameter]],
    name: Name,
    learning_rate: float | Tensor,
    weight_decay: float,
    sgd_momentum: float = 0.9,
    norm_bias_decay: bool = True,
    apart: nn.Module | None = None,
) -> Optimizer:
    """The optimizer called `name` for the parameters that require a gradient.

    `sgd_momentum` applies to "sgd", "lars" and "muon"; "adam" and "adamw" have torch's β₁ = 0.9 and β₂ = 0.999. Without
    `norm_bias_decay`, one-dimensional parameters have no weight decay. With LARS and Muon they never have any: LARS
    also exempts them from adaptation, and Muon updates them by Adam.

    The parameters of the module `apart` get separate groups, so that the rounding of all other updates does not depend
    on its presence. Muon updates all of them by Adam, with which a head that trains nothing else learns better.

    A learning rate given as a tensor stays that tensor, so that a captured CUDA graph follows `set_learning_rate`.
    """
    _check(learning_rate, weight_decay, sgd_momentum)
    named = _trainable(parameters)
    own = set() if apart is None else {id(parameter) for parameter in apart.parameters()}
    groups = _groups(named, weight_decay, name in ("lars", "muon") or not norm_bias_decay, own, name == "muon")
    # None, unlike False, lets torch choose the next best implementation.
    fused = all(parameter.is_cuda for _, parameter in named) or None
    captured = isinstance(learning_rate, Tensor) and learning_rate.is_cuda
    match name:
        case "adam" | "adamw":
            return (Adam if name == "adam" else AdamW)(groups, learning_rate, fused=fused, capturable=captured)
        case "sgd":
            return _at_rest(SGD(groups, learning_rate, sgd_momentum, fused=fused))
        case "lars":
            return LARS(groups, learning_rate, sgd_momentum)
        case "muon":
            return Muon(groups, learning_rate, sgd_momentum)
    raise ValueError(f'the optimizer must be "adam", "adamw", "sgd", "lars" or "muon", got {name!r}')


def _at_rest(optimizer: SGD) -> SGD:
    """The optimizer with momentum buffers initialized to 0: the first step is m · 0 + g, as in torch.

    torch's fused SGD allocates momentum at its first step and leaves it uninitialized if fp16 overflowed there.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def set_learning_rate(optimizer: Optimizer, value: float) -> None:
    """Set the learning rate of all groups; a tensor is overwritten in place, without waiting for the GPU."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def load_optimizer_state(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Give the optimizer the moments and counters of a saved `state_dict`, and leave its settings as they are.

    Unlike `load_state_dict`, this refuses state of other parameters, copies the tensors in the memory layout of their
    parameters, and keeps the tensor of the learning rate.
    """
    groups = optimizer.state_dict()["param_groups"]
    ours, theirs = ([group.get("param_names") for group in some] for some in (groups, saved["param_groups"]))
    if ours != theirs:
        raise ValueError(f"the saved state belongs to other parameters: {theirs} instead of {ours}")
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": saved["state"], "param_groups": groups})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                state[key] = _laid_out_as(parameter, value)


def _laid_out_as(parameter: Tensor, value: Tensor) -> Tensor:
    if value.shape == parameter.shape:
        return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
    if value.ndim == 0:
        return value.clone()
    raise ValueError(f"the saved state has the shape {tuple(value.shape)}, its parameter {tuple(parameter.shape)}")


def _check(learning_rate: float | Tensor, weight_decay: float, sgd_momentum: float) -> None:
    if not isinstance(learning_rate, Tensor) and not learning_rate >= 0:
        raise ValueError(f"the learning rate must not be negative, got {learning_rate}")
    if not weight_decay >= 0:
        raise ValueError(f"the weight decay must not be negative, got {weight_decay}")
    if not 0 <= sgd_momentum < 1:
        raise ValueError(f"the momentum must be at least 0 and less than 1, got {sgd_momentum}")


def _trainable(parameters: nn.Module | Iterable[tuple[str, nn.Parameter]]) -> list[tuple[str, nn.Parameter]]:
    """Each parameter that requires a gradient, once, under its first name."""
    once: dict[int, tuple[str, nn.Parameter]] = {}
    for name, parameter in parameters.named_parameters() if isinstance(parameters, nn.Module) else parameters:
        if parameter.requires_grad:
            once.setdefault(id(parameter), (name, parameter))
    if not once:
        raise ValueError("there is nothing to train: no parameter requires a gradient")
    return list(once.values())


def _groups(
    named: list[tuple[str, nn.Parameter]],
    weight_decay: float,
    exclude: bool,
    apart: Container[int],
    exclude_apart: bool,
) -> list[dict[str, Any]]:
    """Parameter groups, separate for excluded parameters (no weight decay, no `adapt`) and for those `apart`, by id.

    With `exclude`, one-dimensional parameters are excluded, and with `exclude_apart` all those apart. Only LARS and
    Muon use `adapt`.
    """
    groups: dict[tuple[bool, bool], dict[str, Any]] = {}
    for name, parameter in named:
        excluded = exclude and (parameter.ndim <= 1 or (exclude_apart and id(parameter) in apart))
        settings = {"params": [], "weight_decay": 0.0 if excluded else weight_decay, "adapt": not excluded}
        groups.setdefault((id(parameter) in apart, excluded), settings)["params"].append((name, parameter))
    return [groups[kind] for kind in sorted(groups)]
