"""Backbones: any model of timm, and a DeepSet for point clouds."""

from typing import Any

from torch import nn

from care.models.deepset import DeepSet

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
    import timm

    if not timm.is_model(name):
        close = ", ".join(timm.list_models(f"*{name.split('_')[0]}*")[:5])
        raise ValueError(f"timm has no model {name!r}" + (f"; did you mean one of {close}?" if close else ""))
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
