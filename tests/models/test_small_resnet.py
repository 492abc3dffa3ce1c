import pytest
import torch
from torch import nn

from care.models import build_backbone


@pytest.mark.parametrize("side", [17, 24, 32])
def test_any_small_picture_becomes_128_features(generator, side):
    model, features = build_backbone("small_resnet", (side, side))
    assert features == 128
    assert model(torch.rand(3, 3, side, side, generator=generator)).shape == (3, 128)


def test_a_pixel_is_seen_as_far_as_its_layers_reach():
    """The field of view of a place in the last map, from kernels and strides: 5, then 3 at stride 2, 4, 4, 8 pixels."""
    model, _ = build_backbone("small_resnet", (64, 64))
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):
                layer.weight.fill_(1.0)
    image = torch.ones(1, 3, 64, 64, requires_grad=True)
    model.eval().blocks(model.stem(image))[0, 0, 4, 4].backward()
    columns = image.grad[0, 0].abs().sum(0).nonzero()[:, 0]
    assert len(columns) == 5 + 2 * (2 + 4 + 4 + 8)


def test_point_clouds_are_refused():
    with pytest.raises(ValueError, match="need the model deepset"):
        build_backbone("small_resnet", (64,))
