"""The features of an intermediate layer of a backbone, beside its final features."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from care.models.timm_models import MISFITS, in_one_line, without_numbers
from care.suggestions import did_you_mean


def layer_names(backbone: nn.Module) -> tuple[str, ...]:
    """The readable layers, by timm's names, from the first to the last; empty if the model offers none."""
    if not hasattr(backbone, "forward_intermediates"):
        return ()
    info: Any = backbone.feature_info
    return tuple(part["module"] for part in getattr(info, "info", info))


MIDDLE = "middle"  # accepted in place of the name of a layer


def layer_index(backbone: nn.Module, name: str) -> int:
    """The index of the layer called `name`, or of the middle one; ValueError that lists the layers for others."""
    names = layer_names(backbone)
    if name == MIDDLE and names:
        return (len(names) - 1) // 2  # layer2 of a ResNet, blocks.5 of a ViT of twelve
    if name in names:
        return names.index(name)
    kind = type(backbone).__name__
    if not names:
        raise ValueError(f"{kind} has no layers that can be read: leave out {name}, or choose a model such as resnet18")
    layers = ", ".join(filter(None, names))
    raise ValueError(f"{kind} has no layer {name!r}; its layers are {layers}{did_you_mean(name, names)}")


def layer_width(backbone: nn.Module, input_shape: tuple[int, ...], index: int) -> int:
    """The width d of the pooled features [n, d] of a layer for images of this shape, by a pass on the meta device.

    ValueError if reading a layer changes the shape of the model's own features.
    """
    try:
        with torch.no_grad(), torch.device("meta"):
            twin, x = without_numbers(backbone).eval(), torch.empty(2, 3, *input_shape)
            last, maps = twin.forward_intermediates(x, indices=[index], stop_early=False)  # type: ignore[operator]
            if _shapes(last) == _shapes(twin.forward_features(x)):  # type: ignore[operator]
                return int(maps[0].shape[1])
    except MISFITS as error:
        reason = f" ({in_one_line(error)})"
    else:
        reason = ""
    name, kind = layer_names(backbone)[index], type(backbone).__name__
    raise ValueError(f"{kind} cannot be read at {name}{reason}: choose another model")


def read_layer(
    backbone: nn.Module, x: Float[Tensor, "n 3 h w"], index: int
) -> tuple[Float[Tensor, "n features"], Float[Tensor, "n width"]]:
    """(the final features, the mean over all positions or tokens of a layer), of one pass."""
    # Not by a hook: within a compiled block, it would be compiled too, and lose the tensor that it stores.
    last, maps = backbone.forward_intermediates(x, indices=[index], stop_early=False)  # type: ignore[operator]
    return backbone.forward_head(last), maps[0].mean(dim=(2, 3))  # type: ignore[operator]


def read_up_to(backbone: nn.Module, x: Float[Tensor, "n 3 h w"], index: int) -> Float[Tensor, "n width"]:
    """The mean over all positions or tokens of a layer, by a pass that ends there."""
    only = {"stop_early": True, "intermediates_only": True}
    maps = backbone.forward_intermediates(x, indices=[index], **only)  # type: ignore[operator]
    found: Tensor = maps[0].mean(dim=(2, 3))
    return found


def _shapes(last: Tensor | Sequence[Tensor]) -> list[torch.Size]:
    """The shapes of the head's input: a feature map, tokens, or several of these."""
    return [tensor.shape for tensor in ((last,) if isinstance(last, Tensor) else last)]
