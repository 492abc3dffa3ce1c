"""The stem of a ResNet, which sets the resolution before its first block."""

from collections.abc import Mapping

from torch import Tensor, nn

# Pixels along a side per position of the map before the first block; the blocks reduce it by eight more.
REDUCTION = {"imagenet": 4, "tiny_imagenet": 2, "cifar": 1}
BLOCKS_REDUCTION = 8
SMALLEST_MAP = 3
WORDS = {
    "imagenet": "a convolution of stride 2 and a max-pool",
    "tiny_imagenet": "a 3×3 convolution of stride 1 and a max-pool",
    "cifar": "a 3×3 convolution of stride 1 and no max-pool",
}


def stem_for(side: int) -> str:
    """The cheapest stem that leaves at least 3×3 positions in the last map of an image of `side` pixels, if one does.

    `cifar` up to 32 px, as in the paper, `tiny_imagenet` up to 64 px, `imagenet` above.
    """
    return next((stem for stem in REDUCTION if last_map(side, stem) >= SMALLEST_MAP), "cifar")


def last_map(side: int, stem: str) -> int:
    """Positions along a side of a ResNet's last map: ⌈side / (8 · reduction)⌉."""
    return -(-side // (BLOCKS_REDUCTION * REDUCTION[stem]))


def set_stem(model: nn.Module, stem: str, side: int) -> None:
    """Give a ResNet, in place, the stem of this name, or with `auto` the one for images of `side` pixels.

    timm's own stem is `imagenet`. For the others, a 7×7 convolution is replaced by a 3×3 one; in a deep stem of three
    3×3 convolutions, the stride of the first one becomes 1. `auto` leaves deep stems unchanged: the higher resolution
    costs most in the small networks that have them.
    """
    first = _first_convolution(model)
    if stem == "auto":
        stem = stem_for(side) if first is not None and first.kernel_size == (7, 7) else "imagenet"
    if stem == "imagenet":
        return
    if first is None:
        raise ValueError(f"{type(model).__name__} has no ResNet stem to turn into {stem}: leave out stem")
    if first.kernel_size == (7, 7):
        model.conv1 = nn.Conv2d(first.in_channels, first.out_channels, 3, stride=1, padding=1, bias=False)
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    else:
        first.stride = (1, 1)
    if stem == "cifar":
        model.maxpool = nn.Identity()


def stem_of(model: nn.Module) -> str:
    """The stem of a model; any unchanged stem of timm is `imagenet`."""
    first = _first_convolution(model)
    if first is None or first.stride != (1, 1):
        return "imagenet"
    return "cifar" if isinstance(model.maxpool, nn.Identity) else "tiny_imagenet"


def stem_of_weights(weights: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """The stem of weights: from their metadata `about`; without it, `cifar` if `conv1` is 3×3, else `imagenet`."""
    kernel = weights["conv1.weight"].shape[2:] if "conv1.weight" in weights else None
    return about.get("stem", "cifar" if kernel == (3, 3) else "imagenet")


def describe_stem(model: nn.Module, side: int) -> str | None:
    """A sentence about the stem of a ResNet for images of `side` pixels, and what it costs; None for other models."""
    if _first_convolution(model) is None:
        return None
    stem = stem_of(model)
    places, usual = last_map(side, stem), REDUCTION["imagenet"] // REDUCTION[stem]
    cost = f", at up to {usual**2} times the cost of the usual stem" if usual > 1 else ""
    return f"{stem}: {WORDS[stem]} give a last feature map of {places}×{places} for {side} px{cost}"


def _first_convolution(model: nn.Module) -> nn.Conv2d | None:
    """The first convolution of a ResNet's stem, 7×7 or deep; None for models without such a stem and max-pool."""
    stem, pool = getattr(model, "conv1", None), getattr(model, "maxpool", None)
    first = stem[0] if isinstance(stem, nn.Sequential) else stem
    return first if isinstance(first, nn.Conv2d) and isinstance(pool, nn.MaxPool2d | nn.Identity) else None
