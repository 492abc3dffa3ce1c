"""The models of timm at any image size, and their numbers of features."""

import copy
import difflib
import itertools
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Patch and window sizes of models: multiples of these are tried, to suggest image sizes that a model accepts.
STEPS = (14, 16, 32)

# The number of features of a model for an image shape, cached: finding it takes longer than building most models.
_widths: dict[tuple[str, tuple[int, ...]], int] = {}

# The errors that models raise for images of a size that they do not accept.
MISFITS = (RuntimeError, AssertionError, ValueError, IndexError, TypeError, ZeroDivisionError)


def check_timm_name(name: str) -> None:
    """ValueError that suggests similar names if timm has no such model."""
    import timm

    if not timm.is_model(name):
        bare, known = name.partition(".")[0], timm.list_models()
        close = difflib.get_close_matches(bare, known, 3) or timm.list_models(f"*{bare.split('_')[0]}*")[:3]
        hint = f"; did you mean {' or '.join(close)}?" if close else ": timm.list_models() has all of them"
        raise ValueError(f"timm has no model {name!r}{hint}")


def build_timm(name: str, input_shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """(the model, d of its features [n, d]); ValueError that suggests sizes if it does not accept this one."""
    check_timm_name(name)
    try:
        model = create_timm(name, input_shape)
        if (name, input_shape) not in _widths:
            _widths[name, input_shape] = output_width(model, input_shape)
        return model, _widths[name, input_shape]
    except MISFITS as error:
        if "meta tensors" in str(error):
            raise ValueError(f"{name} is not supported: its shapes depend on values; choose another model") from error
        # An assertion is the model's own message about the size; other errors are only its symptoms.
        reason = f" ({in_one_line(error)})" if isinstance(error, AssertionError) and str(error) else ""
        pixels = " × ".join(map(str, input_shape))
        raise ValueError(
            f"{name} does not take images of {pixels} pixels{reason}: {_advice(name, input_shape)}"
        ) from error


def create_timm(name: str, input_shape: tuple[int, ...] | None, **options: Any) -> nn.Module:
    """The model without its classifier, for images of shape `input_shape`, which some constructors need."""
    sizes: list[Any] = (
        [] if input_shape is None else [input_shape, input_shape[0]] if len({*input_shape}) == 1 else [input_shape]
    )
    for size in sizes:  # most constructors take (height, width), one takes the side of a square
        try:
            return _without_classifier(name, img_size=size, **options)
        except TypeError:
            continue
    return _without_classifier(name, **options)


def output_width(model: nn.Module, input_shape: tuple[int, ...]) -> int:
    """The width d of the features [n, d] of images of shape `input_shape`, by one pass on the meta device.

    The pass uses a copy, because some models cache values for a size.
    """
    with torch.no_grad(), torch.device("meta"):
        features: Any = without_numbers(model).eval()(torch.empty(2, 3, *input_shape))
    shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
    if not isinstance(shape, list) or len(shape) != 2 or shape[0] != 2:
        raise AssertionError(f"it returns {shape} for 2 images, not one vector per image")
    return shape[1]


def without_numbers(model: nn.Module) -> nn.Module:
    """A copy of the model on the meta device, whose tensors have shapes but no values."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): _shape_of(tensor) for tensor in tensors})


def _shape_of(tensor: Tensor) -> Tensor:
    meta = tensor.detach().to("meta")
    return nn.Parameter(meta, requires_grad=False) if isinstance(tensor, nn.Parameter) else meta


def in_one_line(error: Exception) -> str:
    """The first line of an error's message, to be part of a sentence."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def _without_classifier(name: str, **options: Any) -> nn.Module:
    import timm

    with warnings.catch_warnings(action="ignore"):  # of classifiers for no classes
        model = timm.create_model(name, num_classes=0, **options)
    if any(parameter.numel() == 0 for parameter in model.parameters()):  # a classifier for no classes is left
        model.reset_classifier(0)  # type: ignore[operator]
    return model


def _advice(name: str, input_shape: tuple[int, ...]) -> str:
    """Advice on accepted sizes: one below and one above, among multiples of `STEPS` and the model's own size."""
    import timm.models

    side, own = min(input_shape), getattr(timm.models.get_pretrained_cfg(name), "input_size", (3, 224, 224))[-1]
    near = {own, *(step * (side // step + offset) for step in STEPS for offset in (-1, 0, 1))}
    below = _first_taken(name, sorted((size for size in near if 0 < size < side), reverse=True))
    above = _first_taken(name, sorted(size for size in near if size > side))
    taken = [str(size) for size in (below, above) if size is not None]
    return f"choose a size such as {' or '.join(taken)}" if taken else "choose another model"


def _first_taken(name: str, sizes: Iterable[int]) -> int | None:
    for size in sizes:
        try:
            with torch.device("meta"):
                output_width(create_timm(name, (size, size)), (size, size))
        except MISFITS:
            continue
        return size
    return None
