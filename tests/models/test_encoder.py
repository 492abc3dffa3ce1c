import pytest
import timm
import torch
from torch import nn

from care.models import Encoder, build_backbone, projection_head


def test_small_images_get_a_small_stem():
    small, features = build_backbone("resnet18", (32, 32))
    large, _ = build_backbone("resnet18", (224, 224))
    assert (small.conv1.kernel_size, small.conv1.stride, type(small.maxpool)) == ((3, 3), (1, 1), nn.Identity)
    assert (large.conv1.kernel_size, type(large.maxpool)) == ((7, 7), nn.MaxPool2d)
    assert features == 512
    assert small.forward_features(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 4, 4)


def test_everything_but_the_stem_loads_into_timm():
    ours, _ = build_backbone("resnet18", (32, 32))
    theirs = timm.create_model("resnet18", num_classes=0)
    assert set(ours.state_dict()) == set(theirs.state_dict())


def test_transformers_take_the_size_of_the_images():
    model, features = build_backbone("vit_tiny_patch16_224", (64, 64))
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, features)


@pytest.mark.parametrize(
    ("name", "input_shape", "message"),
    [
        ("resnet81", (32, 32), "timm has no model 'resnet81'"),
        ("deepset", (32, 32), "takes point clouds"),
        ("resnet18", (64,), "need the model deepset"),
    ],
)
def test_models_that_do_not_fit_are_refused(name, input_shape, message):
    with pytest.raises(ValueError, match=message):
        build_backbone(name, input_shape)


@pytest.mark.parametrize(("name", "fastest"), [("resnet18", True), ("fastvit_t8", False), ("lambda_resnet26t", False)])
def test_channels_are_last_where_torch_can_do_it(name, fastest):
    """A 1×1 convolution of stride 2 on images of 96 px, channels last, ends in a crash of torch on a CPU."""
    with torch.device("meta"):
        encoder = Encoder.build(name, (96, 96))
    encoder.mean = torch.zeros(3)
    assert (encoder.memory_format == torch.channels_last) == fastest
    encoder.to(memory_format=encoder.memory_format)


def test_the_papers_head():
    head = projection_head(2048, 512, 128)
    assert [type(layer) for layer in head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert (head[0].in_features, head[0].out_features, head[3].out_features) == (2048, 512, 128)
    assert [type(layer) for layer in projection_head(8, 8, 4, depth=1)] == [nn.Linear]
    assert len(projection_head(8, 8, 4, depth=3, batchnorm=False)) == 5
    with pytest.raises(ValueError, match="at least one layer"):
        projection_head(8, 8, 4, depth=0)


def test_the_encoder_normalizes_its_input(generator):
    """The literal composition, for images and for clouds."""
    encoder = Encoder.build("resnet18", (32, 32), mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)).eval()
    x = torch.rand(2, 3, 32, 32, generator=generator)
    normalized = torch.stack([(x[:, c] - (c + 1) / 10) / (c / 10 + 0.5) for c in range(3)], dim=1)
    torch.testing.assert_close(encoder(x), encoder.head(encoder.backbone(normalized)))
    torch.testing.assert_close(encoder.features(x), encoder.backbone(normalized))
    cloud_encoder = Encoder.build("deepset", (10,), embedding_dim=16).eval()
    assert cloud_encoder(torch.zeros(2, 10, 3)).shape == (2, 16)
