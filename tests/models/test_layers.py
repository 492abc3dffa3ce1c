"""A layer of a backbone, read beside the last features: against a hook on the module of that name."""

from importlib.metadata import version

import pytest
import torch
from torch import nn

from care.models import Encoder, build_backbone, projection_head
from care.models.layers import layer_index, layer_names, layer_width, read_layer, read_up_to
from models.zoo import MODELS, REFUSED


def hooked(backbone, name, x):
    """The mean over places, or tokens but for the first ones, of what the module called `name` gives."""
    seen = []
    handle = backbone.get_submodule(name).register_forward_hook(lambda *call: seen.append(call[-1]))
    features = backbone(x)
    handle.remove()
    out = seen[0]
    if out.ndim == 3:
        return features, out[:, getattr(backbone, "num_prefix_tokens", 0) :].mean(1)
    return features, out.mean((1, 2)) if getattr(backbone, "output_fmt", "") == "NHWC" else out.mean((2, 3))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("test_resnet", "layer2"), ("test_resnet", "act1"), ("test_vit", "blocks.3"), ("test_convnext", "stages.1"),
        ("small_resnet", "blocks.0"), ("small_resnet", "blocks.1"),
    ],
)  # fmt: skip
def test_a_layer_is_what_its_module_gives(model, name, generator):
    backbone, _ = build_backbone(model, (32, 32))
    x = torch.rand(3, 3, 32, 32, generator=generator)
    expected = hooked(backbone.eval(), name, x)
    index = layer_index(backbone, name)
    found = read_layer(backbone, x, index)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(read_up_to(backbone, x, index), expected[1])
    assert layer_width(backbone, (32, 32), index) == found[1].shape[1]


@pytest.mark.parametrize(
    ("model", "input_shape", "name", "message"),
    [
        ("resnet18", (32, 32), "layer33", r"^ResNet has no layer 'layer33'; its layers are act1, layer1, layer2, "
         r"layer3, layer4; did you mean layer3\?$"),
        ("test_vit", (32, 32), "layer3", r"^VisionTransformer has no layer 'layer3'; its layers are blocks.0, .*5$"),
        ("deepset", (10,), "point", "^DeepSet has no layers that can be read: leave out point, or choose a model such"),
    ],
)  # fmt: skip
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(model, input_shape, name, message):
    with torch.device("meta"), pytest.raises(ValueError, match=message):
        Encoder.build(model, input_shape, equivariant_dim=3, equivariant_layer=name)


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    sizes = {"embedding_dim": 8, "head_width": 16, "equivariant_dim": 3, "equivariant_layer": "layer2"}
    return Encoder.build("test_resnet", (32, 32), **sizes, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)).eval()


def test_the_last_coordinates_are_those_of_the_layer(encoder, generator):
    """The literal composition; the layer is that of a hook."""
    x = torch.rand(4, 3, 32, 32, generator=generator)
    normalized = (x - torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)) / torch.tensor([0.5, 0.6, 0.7]).view(1, 3, 1, 1)
    last, inner = hooked(encoder.backbone, "layer2", normalized)
    features, z = encoder.encode(x)
    torch.testing.assert_close(features, last)
    torch.testing.assert_close(z, torch.cat([encoder.head(last), encoder.equivariant_head(inner)], dim=1))
    torch.testing.assert_close(encoder(x), z)
    torch.testing.assert_close(encoder.features(x), last)
    assert z.shape == (4, 8)
    assert [type(layer) for layer in encoder.equivariant_head] == [type(layer) for layer in projection_head(8, 8, 3)]


def test_its_head_may_have_more_layers_than_that_of_the_method():
    sizes = {"embedding_dim": 8, "head_width": 16, "equivariant_dim": 3, "stop_gradient": True}
    encoder = Encoder.build("test_resnet", (32, 32), **sizes, equivariant_depth=3)
    depths = [sum(isinstance(layer, nn.Linear) for layer in head) for head in (encoder.head, encoder.equivariant_head)]
    assert depths == [2, 3]


def test_without_a_layer_an_encoder_has_the_weights_it_had():
    """Also where its embedding is split: encoders that were saved before load."""
    names = [list(Encoder.build("test_resnet", (32, 32), 8, 16, equivariant_dim=dim).state_dict()) for dim in (0, 3)]
    assert names[0] == names[1]
    assert not any(name.startswith("equivariant_head") for name in names[1])


def _release(version):
    return tuple(int(part) for part in version.split(".")[:3])


@pytest.mark.zoo
@pytest.mark.parametrize("name", MODELS)
def test_layers_of_every_family(name):
    """The last features are those of a plain pass, and every layer can be read."""
    if name in REFUSED[96]:
        pytest.skip("does not take 96 px")
    backbone, _ = build_backbone(name, (96, 96))
    if not hasattr(backbone, "forward_intermediates"):  # some, before timm 1.0.31
        assert layer_names(backbone) == ()
        return
    if name == "gemma4_vit_167m" or (name == "mobilenetv5_base" and _release(version("timm")) < (1, 0, 31)):
        with pytest.raises(ValueError, match="cannot be read at"):
            layer_width(backbone, (96, 96), 0)
        return
    x = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = backbone.eval()(x)
        for index in range(len(layer_names(backbone))):
            features, inner = read_layer(backbone, x, index)
            torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
            assert inner.shape == (2, layer_width(backbone, (96, 96), index))
            torch.testing.assert_close(read_up_to(backbone, x, index), inner)
