"""Backbones: any model of timm, a DeepSet for point clouds, and a small ResNet that a CPU can train in a minute."""

from torch import nn

from care.models.deepset import DeepSet
from care.models.small_resnet import SmallResNet
from care.models.stems import set_stem
from care.models.timm_models import build_timm


def build_backbone(name: str, input_shape: tuple[int, ...], stem: str = "auto") -> tuple[nn.Module, int]:
    """(the backbone, the number of its features) for inputs of shape `input_shape`: (height, width), or (points,).

    For a ResNet, `auto` chooses a stem that keeps enough resolution for small images, by `stem_for`.
    """
    model, features = _build(name, input_shape)
    set_stem(model, stem, max(input_shape))
    return model, features


def _build(name: str, input_shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    if name == "deepset":
        if len(input_shape) != 1:
            raise ValueError("the model deepset takes point clouds; choose a timm model such as resnet18 for images")
        return DeepSet(out_features=128), 128
    if len(input_shape) != 2:
        raise ValueError(f"point clouds need the model deepset, not {name}")
    if name == "small_resnet":
        small = SmallResNet()
        return small, small.num_features
    return build_timm(name, input_shape)
