"""Models of timm: their features are counted without numbers, and what does not fit is refused in a sentence."""

import copy

import pytest
import timm
import torch

from care.losses import info_nce
from care.models import Encoder, build_backbone, split_batchnorm
from care.models.timm_models import output_width
from models.zoo import MODELS, QUICK, REFUSED


@pytest.mark.parametrize(
    "name", [name if i % 8 == 0 else pytest.param(name, marks=pytest.mark.zoo) for i, name in enumerate(QUICK)]
)
def test_features_are_counted_without_numbers(name):
    with torch.device("meta"):
        assert build_backbone(name, (64, 64))[1] > 0


@pytest.mark.parametrize(
    "name",
    ["test_resnet", "test_vit", "mobilenetv3_small_050", "lcnet_035", "ghostnet_050", "inception_next_atto"],
)
def test_as_many_features_as_timms_model_gives(name):
    """With the random state and the statistics of BatchNorm as they were; timm counts others by `num_features`."""
    model, features = build_backbone(name, (64, 64))
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    generator = torch.get_rng_state()
    assert output_width(model, (64, 64)) == features
    assert torch.equal(generator, torch.get_rng_state())
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    assert model.training
    size = {"img_size": 64} if name == "test_vit" else {}
    theirs = timm.create_model(name, **size).eval()
    assert theirs.forward_head(theirs.forward_features(torch.zeros(1, 3, 64, 64)), pre_logits=True).shape[1] == features


@pytest.mark.parametrize(
    ("name", "side", "message"),
    [
        ("test_vit", 100, r"does not take images of 100 × 100 pixels \(Input height \(100\) should be "
         r"divisible by patch size \(16\)\): choose a size such as 96 or 112$"),
        ("ghostnetv2_100", 32, "^ghostnetv2_100 does not take images of 32 × 32 pixels: choose a size such as 42$"),
    ],
)  # fmt: skip
def test_a_size_that_does_not_fit_is_refused_with_one_that_does(name, side, message):
    with torch.device("meta"), pytest.raises(ValueError, match=message):
        build_backbone(name, (side, side))


@pytest.mark.zoo
@pytest.mark.parametrize("side", [64, 96])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step(name, side):
    """Two views, InfoNCE, backward, a step; then a copy with the same weights gives the same features."""
    if name in REFUSED[side]:
        with pytest.raises(ValueError, match=rf"^{name} (does not take images|is not supported)"):
            Encoder.build(name, (side, side))
        return
    torch.manual_seed(0)
    encoder = split_batchnorm(Encoder.build(name, (side, side), embedding_dim=8, head_width=16))
    encoder = encoder.to(memory_format=encoder.memory_format)
    teacher, images = copy.deepcopy(encoder), torch.rand(2, 4, 3, side, side)
    (_, a), (_, b) = encoder.encode_views(list(images))
    info_nce(a, b, temperature=0.5).backward()
    torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)  # on noise, some networks have huge ones
    torch.optim.SGD(encoder.parameters(), 1e-3).step()
    gradients = [parameter.grad for parameter in encoder.backbone.parameters()]
    assert any(gradient is not None and gradient.any() for gradient in gradients)  # few, where blocks begin as 0
    teacher.load_state_dict(encoder.state_dict())
    with torch.no_grad():
        features = encoder.eval().features(images[0])
        assert features.isfinite().all()
        torch.testing.assert_close(teacher.eval().features(images[0]), features)
