"""Backbones: any model of timm, a DeepSet for point clouds, and a ResNet that a CPU trains in a minute."""

import difflib
from typing import Any

from torch import nn

from care.models.deepset import DeepSet
from care.models.small_resnet import SmallResNet

SMALL_IMAGE = 64


def build_backbone(name: str, source: tuple[int, ...]) -> tuple[nn.Module, int]:
    """(the backbone, the number of its features) for inputs of shape `source`: (height, width), or (points,).

    Images of at most 64 px get a 3×3 stem of stride 1 and no max-pool where the model is a ResNet, as the paper uses on
    CIFAR: the usual stem would throw away three quarters of the pixels at once.
    """
    if name == "deepset":
        if len(source) != 1:
            raise ValueError("the model deepset takes point clouds; choose a timm model such as resnet18 for images")
        return DeepSet(out_features=128), 128
    if len(source) != 2:
        raise ValueError(f"point clouds need the model deepset, not {name}")
    if name == "small_resnet":
        small = SmallResNet()
        return small, small.num_features
    import timm

    if not timm.is_model(name):
        close = (
            difflib.get_close_matches(name, timm.list_models(), 3) or timm.list_models(f"*{name.split('_')[0]}*")[:3]
        )
        hint = f"; did you mean {' or '.join(close)}?" if close else ": timm.list_models() has all of them"
        raise ValueError(f"timm has no model {name!r}{hint}")
    model = timm.create_model(name, num_classes=0, **_size_argument(name, source))
    if max(source) <= SMALL_IMAGE:
        small_stem(model)
    return model, int(model.num_features)  # type: ignore[arg-type]


def small_stem(model: nn.Module) -> nn.Module:
    """Replace, in place, a ResNet's 7×7 stride-2 stem and max-pool by a 3×3 stride-1 convolution."""
    stem, pool = getattr(model, "conv1", None), getattr(model, "maxpool", None)
    if isinstance(stem, nn.Conv2d) and isinstance(pool, nn.MaxPool2d) and stem.kernel_size == (7, 7):
        model.conv1 = nn.Conv2d(stem.in_channels, stem.out_channels, 3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
        model.maxpool = nn.Identity()
    return model


def _size_argument(name: str, source: tuple[int, ...]) -> dict[str, Any]:
    """Transformers are built for one image size; convolutional networks take any."""
    return {"img_size": source} if "vit" in name or "deit" in name or "swin" in name else {}
