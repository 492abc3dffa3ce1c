"""The base class of drawn augmentations: immutable values with one row per augmentation."""

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

ROWS_SHOWN = 8

P = TypeVar("P", bound="Parameters")


@dataclass(frozen=True, repr=False, eq=False)
class Parameters(ABC):
    """Drawn augmentations: fields that are tensors have a row per augmentation, all other fields are shared.

    They can be indexed, repeated, concatenated and moved between devices, but not changed.
    """

    def __len__(self) -> int:
        return len(next(self._tensors())[1])

    def __getitem__(self: P, index: int | slice | Tensor) -> P:
        """The chosen augmentations; `p[3]` is a list of one."""
        if isinstance(index, int):
            index = range(len(self))[index]
            index = slice(index, index + 1)
        return self._map(lambda _, tensor: tensor[index])

    def repeat(self: P, times: int) -> P:
        """Each augmentation `times` times in a row (0 0 0 1 1 1 …), so that neighboring samples share one."""
        return self._map(lambda _, tensor: tensor.repeat_interleave(times, dim=0))

    def to(self: P, device: torch.device | str, non_blocking: bool = False) -> P:
        """The same augmentations on another device."""
        return self._map(lambda _, tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self: P) -> P:
        """The same augmentations in pinned memory, from which they can be copied without blocking."""
        return self._map(lambda _, tensor: tensor.pin_memory())

    @staticmethod
    def concatenate(parts: Sequence[P]) -> P:
        """One list of augmentations out of several that share their settings."""
        first = parts[0]
        for part in parts[1:]:
            if part._settings() != first._settings():
                raise ValueError(f"settings differ: {first._settings()} and {part._settings()}")
        return first._map(lambda name, _: torch.cat([getattr(part, name) for part in parts]))

    def names(self) -> tuple[str, ...]:
        """The names of the columns of `to_vector`: `top`, `order_0`, `rotation_2_1` …"""
        return tuple(
            "_".join((name, *map(str, index)))
            for name, tensor in self._tensors()
            for index in itertools.product(*map(range, tensor.shape[1:]))
        )

    def to_vector(self) -> Float[Tensor, "n columns"]:
        """All parameters as numbers, a row per augmentation: the targets of a regression, for example."""
        return torch.cat([tensor.reshape(len(self), -1).float() for _, tensor in self._tensors()], dim=1)

    def with_vector(self: P, vector: Float[Tensor, "m columns"]) -> P:
        """The augmentations that `vector` holds, with the settings of this one: undoes `to_vector`."""
        if vector.ndim != 2 or vector.shape[1] != len(self.names()):
            raise ValueError(f"expected {len(self.names())} columns ({', '.join(self.names())}), got {vector.shape}")
        widths = [tensor[0].numel() for _, tensor in self._tensors()]
        columns = dict(zip((name for name, _ in self._tensors()), vector.split(widths, dim=1), strict=True))
        return self._map(lambda name, tensor: columns[name].reshape(-1, *tensor.shape[1:]).to(tensor.dtype))

    @abstractmethod
    def steps(self, index: int) -> list[str]:
        """What one augmentation does, a phrase per operation, in the order of application."""

    def describe(self, index: int) -> str:
        """One augmentation in words."""
        return ", ".join(self.steps(index)) or "identity"

    def __repr__(self) -> str:
        shown = [f"  {i}: {self.describe(i)}" for i in range(min(len(self), ROWS_SHOWN))]
        rest = [f"  … {len(self) - ROWS_SHOWN} more"] if len(self) > ROWS_SHOWN else []
        settings = ", ".join(f"{name}={value}" for name, value in self._settings().items())
        return "\n".join([f"{type(self).__name__} of {len(self)} ({settings})", *shown, *rest])

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                yield field.name, value

    def _settings(self) -> dict[str, Any]:
        tensors = dict(self._tensors())
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in tensors}

    def _map(self: P, change: Callable[[str, Tensor], Tensor]) -> P:
        return dataclasses.replace(self, **{name: change(name, tensor) for name, tensor in self._tensors()})


def device_of(generator: torch.Generator | None) -> torch.device:
    """The generator's device; TypeError without one, since draws from torch's global one could not be repeated."""
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"sample takes a generator, such as torch.Generator(), and got {generator!r}")
    return generator.device
