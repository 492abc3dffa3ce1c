"""A pretrained model: images in, vectors out."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.geometry import Euclidean
from care.models import Encoder
from care.models.layers import layer_index, layer_names
from care.models.timm_models import in_one_line
from care.tables import visible

Channels = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation


@dataclass(frozen=True, eq=False)
class PretrainedModel:
    """A frozen model that maps images in [0, 1], or point clouds, to vectors.

    `outputs` names the vectors. A run has the "embedding", the output of its head, and the features of its "backbone".
    The last `equivariant_dim` dimensions of a split embedding z = (c, r) are its equivariant part r: such a run has the
    outputs "embedding" (c/‖c‖, r/‖r‖)/√2, "invariant" c, "equivariant" r and "backbone". Models that care did not train
    have "features". If a layer is read, its mean over positions is "intermediate": the layer that r is computed from,
    or any other (`reading`). `size` is the side in pixels of the images that the model takes, None if it is unknown.
    """

    name: str
    encoder: Encoder
    size: int | None = None
    has_head: bool = False
    equivariant_dim: int = 0
    _found_finite: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what `embed` returns."""
        read = ("intermediate",) if self.encoder.layer is not None else ()
        if not self.has_head:
            return ("features", *read)
        return ("embedding", *(("invariant", "equivariant") if self.equivariant_dim else ()), "backbone", *read)

    @torch.no_grad()
    def embed(self, inputs: Float[Tensor, "n ..."]) -> dict[str, Float[Tensor, "n _"]]:
        """All outputs in one pass, in float32. ValueError if they are not vectors, or the first ones are not finite."""
        features: Any
        features, intermediate = self.encoder.read(inputs)
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if not isinstance(shape, list) or len(shape) != 2 or shape[0] != len(inputs):
            raise ValueError(f"{self.name} gives {shape} for {len(inputs)} inputs: export its pooled features [n, d]")
        found = {name: output.float() for name, output in self._outputs(features, intermediate).items()}
        if not self._found_finite:  # checked once, because the check makes the host wait for the GPU
            if not all(output.isfinite().all() for output in found.values()):
                raise ValueError(f"{self.name} gives numbers that are not finite: is its normalization what it needs?")
            self._found_finite.update(found)
        return found

    def _outputs(
        self, features: Float[Tensor, "n _"], intermediate: Float[Tensor, "n _"]
    ) -> dict[str, Float[Tensor, "n _"]]:
        read = {"intermediate": intermediate} if self.encoder.layer is not None else {}
        if not self.has_head:
            return {"features": features, **read}
        z = self.encoder.project(features, intermediate)
        if not self.equivariant_dim:
            return {"embedding": z, "backbone": features, **read}
        c, r = split_embedding(z, self.equivariant_dim)
        return {"embedding": joined(c, r), "invariant": c, "equivariant": r, "backbone": features, **read}

    def with_layer(self, layer: str) -> "PretrainedModel":
        """The same model with one more output, "intermediate": the mean over positions of a layer of its backbone.

        ValueError if there is no such layer, or if the equivariant part is computed from another one.
        """
        old, own = self.encoder, self.encoder.layer
        if own is not None and own != layer_index(old.backbone, layer):
            theirs = layer_names(old.backbone)[own]
            raise ValueError(
                f"the equivariant part of {self.name} is made from {theirs}, which is read: leave out layer"
            )
        channels = (tuple(buffer.tolist()) for buffer in (old.mean, old.std))
        encoder = Encoder(old.backbone, old.head, *channels, layer=layer, equivariant_head=old.equivariant_head)
        return dataclasses.replace(self, encoder=encoder.eval().requires_grad_(False))

    def features_beside(self, layer: str) -> Callable[[Tensor], Tensor]:
        """images ↦ [f, h]: the final features, and beside them the mean over positions of a layer of the backbone.

        ValueError if there is no such layer.
        """
        old = self.encoder
        channels = (tuple(buffer.tolist()) for buffer in (old.mean, old.std))
        encoder = Encoder(old.backbone, nn.Identity(), *channels, layer=layer).eval().to(old.mean.device)

        @torch.no_grad()
        def both(images: Tensor) -> Tensor:
            return torch.cat(encoder.read(images), dim=1).float()

        return both

    def check(self, inputs: Float[Tensor, "n ..."]) -> None:
        """ValueError if the model does not take such inputs. Pass a few of them before hours of work."""
        try:
            self.embed(inputs)
        except (RuntimeError, AssertionError, IndexError) as error:  # the errors of models for a wrong shape
            shape = list(inputs.shape[1:])
            raise ValueError(f"{self.name} does not take inputs of shape {shape}: {in_one_line(error)}") from error

    def to(self, device: torch.device | str) -> "PretrainedModel":
        """Move the model to the device of the inputs, in place as torch does. The session of an ONNX file stays."""
        self.encoder.to(device)
        if not isinstance(self.encoder.backbone, torch.jit.ScriptModule):
            self.encoder.to(memory_format=self.encoder.memory_format)
        return self

    @property
    def normalization(self) -> str:
        """How the images are normalized, in words."""
        mean, std = (", ".join(f"{x:.3g}" for x in buffer.tolist()) for buffer in (self.encoder.mean, self.encoder.std))
        return "none" if (mean, std) == ("0, 0, 0", "1, 1, 1") else f"mean {mean}; std {std}"


def split_embedding(z: Float[Tensor, "n d"], equivariant_dim: int) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n t"]]:
    """(c, r) of the split embedding z = (c, r): the equivariant part r is the last t = `equivariant_dim` dimensions."""
    invariant_dim = z.shape[1] - equivariant_dim
    if not 0 < invariant_dim < z.shape[1]:
        raise ValueError(f"an equivariant part of {equivariant_dim} dimensions cannot be split off {z.shape[1]}")
    return z[:, :invariant_dim], z[:, invariant_dim:]


def joined(c: Float[Tensor, "n p"], r: Float[Tensor, "n t"]) -> Float[Tensor, "n p+t"]:
    """(c/‖c‖, r/‖r‖)/√2: the invariant and the equivariant part on one unit sphere, with equal weight.

    A rotation of r that fixes c is a rotation of the joined embedding.
    """
    sphere = Euclidean()
    return torch.cat([sphere.embed(c), sphere.embed(r)], dim=1) / 2**0.5


def frozen_model(name: str, model: nn.Module, size: int | None, channels: Channels | None) -> PretrainedModel:
    """A model that care did not train, in evaluation mode, with images normalized by `channels`, if given."""
    mean, std = channels or ((0.0,) * 3, (1.0,) * 3)
    encoder = Encoder(model, nn.Identity(), tuple(map(float, mean)), tuple(map(float, std)))
    return PretrainedModel(visible(name), encoder.eval().requires_grad_(False), size)
