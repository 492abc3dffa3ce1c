"""Projection heads: from the features of the backbone to the embedding that the losses use."""

from torch import nn


def projection_head(
    features: int, width: int, out: int, depth: int = 2, batchnorm: bool = True, last_batchnorm: bool = False
) -> nn.Sequential:
    """`depth` linear layers: features → width → … → out, with BatchNorm and ReLU between them.

    The paper's head on CIFAR is 2048 → 512 → 128 with BatchNorm; on ImageNet-100, 2048 → 2048 → 128 without. With
    `last_batchnorm`, a BatchNorm without learned scale and shift follows the last layer, as in SimSiam and MoCo-v3.
    """
    if depth < 1:
        raise ValueError(f"a projection head needs at least one layer, got {depth}")
    layers: list[nn.Module] = []
    for _ in range(depth - 1):
        layers.append(nn.Linear(features, width, bias=not batchnorm))
        layers.extend([nn.BatchNorm1d(width)] if batchnorm else [])
        layers.append(nn.ReLU(inplace=True))
        features = width
    if last_batchnorm:
        return nn.Sequential(*layers, nn.Linear(features, out, bias=False), nn.BatchNorm1d(out, affine=False))
    return nn.Sequential(*layers, nn.Linear(features, out))
