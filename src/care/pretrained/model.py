"""A model to measure: images in, vectors out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.models import Encoder
from care.pretrained.outputs import whole
from care.tables import visible

Channels = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation


@dataclass(frozen=True, eq=False)
class PretrainedModel:
    """A model to measure: images in [0, 1], or point clouds, to vectors.

    `outputs` names the vectors: "head" and "backbone" of our runs, "features" of all other models. Where the contrast
    and the equivariance loss had coordinates of their own, the last `turned` for the latter, those are "head", and the
    others "contrast": each has a sphere of its own. `size` is the side in pixels that it wants its images in, None if
    it does not say.
    """

    name: str
    encoder: Encoder
    size: int | None = None
    has_head: bool = False
    turned: int = 0
    _found_finite: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what `embed` returns."""
        if not self.has_head:
            return ("features",)
        return ("embedding", *(("invariant", "equivariant") if self.turned else ()), "backbone")

    @torch.no_grad()
    def embed(self, inputs: Float[Tensor, "n ..."]) -> dict[str, Float[Tensor, "n _"]]:
        """All outputs in one pass, in float32. ValueError if they are no vectors, or the first ones are not finite."""
        features: Any = self.encoder.features(inputs)
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if not isinstance(shape, list) or len(shape) != 2 or shape[0] != len(inputs):
            raise ValueError(f"{self.name} gives {shape} for {len(inputs)} inputs: export its pooled features [n, d]")
        found = {name: output.float() for name, output in self._outputs(features).items()}
        if not self._found_finite:  # looked at once: the host waits for the GPU then
            if not all(output.isfinite().all() for output in found.values()):
                raise ValueError(f"{self.name} gives numbers that are not finite: is its normalization what it needs?")
            self._found_finite.update(found)
        return found

    def _outputs(self, features: Float[Tensor, "n _"]) -> dict[str, Float[Tensor, "n _"]]:
        if not self.has_head:
            return {"features": features}
        z = self.encoder.head(features)
        if not self.turned:
            return {"embedding": z, "backbone": features}
        c, r = z[:, : -self.turned], z[:, -self.turned :]
        return {"embedding": whole(c, r), "invariant": c, "equivariant": r, "backbone": features}

    def check(self, inputs: Float[Tensor, "n ..."]) -> None:
        """ValueError if the model does not take such inputs: a few of them tell before hours of work."""
        try:
            self.embed(inputs)
        except (RuntimeError, AssertionError, IndexError) as error:  # what foreign models say of a wrong shape
            shape = list(inputs.shape[1:])
            raise ValueError(f"{self.name} does not take inputs of shape {shape}: {in_one_line(error)}") from error

    def to(self, device: torch.device | str) -> "PretrainedModel":
        """Move the model to where the inputs will be, in place as torch does. What runs an ONNX file stays."""
        self.encoder.to(device)
        if not isinstance(self.encoder.backbone, torch.jit.ScriptModule):
            self.encoder.to(memory_format=torch.channels_last)  # what convolutions are fastest in
        return self

    @property
    def normalization(self) -> str:
        """What is done to the images first, in words."""
        mean, std = (", ".join(f"{x:.3g}" for x in buffer.tolist()) for buffer in (self.encoder.mean, self.encoder.std))
        return "none" if (mean, std) == ("0, 0, 0", "1, 1, 1") else f"mean {mean}; std {std}"


def frozen_model(name: str, model: nn.Module, size: int | None, channels: Channels | None) -> PretrainedModel:
    """Somebody else's model, which normalizes its images by `channels`, if it does."""
    mean, std = channels or ((0.0,) * 3, (1.0,) * 3)
    encoder = Encoder(model, nn.Identity(), tuple(map(float, mean)), tuple(map(float, std)))
    return PretrainedModel(visible(name), encoder.eval().requires_grad_(False), size)


def in_one_line(error: Exception) -> str:
    """The first line of an error's message, to be part of a sentence."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
