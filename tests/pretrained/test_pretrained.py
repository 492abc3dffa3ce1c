"""Each kind of model, embedded by its name, against the plain forward pass of the same weights."""

import socket
import time
import warnings

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

import care
from care.export import export
from care.models import build_backbone
from care.objective import build_encoder
from care.pretrained import load_pretrained
from care.train import Run, prepare, train
from pretrained.made import onnx_means, publish
from train.small import small_config, small_data

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class ChannelMeans(nn.Module):
    """The function that hand-made files hold."""

    def forward(self, images):
        return images.mean((2, 3))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    train(prepare(small_config(small_data(folder / "data"), model="test_resnet", epochs=1), folder / "mine"))
    return folder / "mine"


@pytest.fixture
def images(generator):
    return torch.rand(5, 3, 32, 32, generator=generator)


def normalized(images, mean, std):
    return torch.stack([(images[:, c] - mean[c]) / std[c] for c in range(3)], dim=1)


def script(model, file, example):
    with warnings.catch_warnings(action="ignore"):
        torch.jit.trace(model, example).save(str(file))
    return str(file)


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """No network, whatever this machine has, and an empty cache of the hub; returns (the cache, who was asked)."""
    from huggingface_hub import constants

    asked = []

    def nobody(host, *_, **__):
        asked.append(host)
        raise socket.gaierror(-2, "this test has no network")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    return tmp_path / "hub", asked


@pytest.mark.parametrize("file", ["", "model.safetensors"])
def test_a_run_gives_its_embedding_and_its_backbone(run, images, file):
    model, encoder = load_pretrained(str(run / file)), care.load(run)
    assert (model.name, model.outputs, model.size) == ("mine", ("embedding", "backbone"), 8)
    found = model.embed(images)
    torch.testing.assert_close(found["embedding"], encoder(images), rtol=0, atol=0)
    torch.testing.assert_close(found["backbone"], encoder.features(images), rtol=0, atol=0)


def test_a_split_embedding_is_given_whole_and_in_its_parts(tmp_path, images):
    config = small_config(small_data(tmp_path / "data"), epochs=1, equivariance="split")
    train(prepare(config, tmp_path / "split"))
    model, z = load_pretrained(str(tmp_path / "split")), care.load(tmp_path / "split")(images)
    found = model.embed(images)
    assert model.equivariant_dim == 3
    assert tuple(found) == model.outputs == ("embedding", "invariant", "equivariant", "backbone")
    torch.testing.assert_close(found["invariant"], z[:, :5], rtol=0, atol=0)
    torch.testing.assert_close(found["equivariant"], z[:, 5:], rtol=0, atol=0)
    literal = torch.stack([torch.cat([x[:5] / x[:5].norm(), x[5:] / x[5:].norm()]) / 2**0.5 for x in z])
    torch.testing.assert_close(found["embedding"], literal)


def test_all_outputs_take_one_pass(run, images):
    model, passes = load_pretrained(str(run)), []
    model.encoder.backbone.register_forward_hook(lambda *_: passes.append(1))
    model.embed(images)
    assert len(passes) == 1


def test_a_run_on_point_clouds_and_its_export(tmp_path, generator):
    config = small_config("chains", model="deepset", policy="rotations")
    encoder = build_encoder(config, (16,)).eval()
    (tmp_path / "clouds").mkdir()
    run = Run(tmp_path / "clouds")
    run.save_encoder(encoder, config, (16,))
    (run.folder / "config.toml").write_text(config.to_toml())
    exported, _ = export(run.folder, "onnx")
    models = [load_pretrained(str(path)) for path in (run.folder, exported)]
    clouds = torch.randn(5, 16, 3, generator=generator)
    assert [(model.name, model.size) for model in models] == [("clouds", None), ("encoder", None)]
    torch.testing.assert_close(models[0].embed(clouds)["embedding"], encoder(clouds))
    torch.testing.assert_close(models[1].embed(clouds)["features"], encoder.features(clouds))


@pytest.mark.parametrize("to", ["timm", "torchscript"])
def test_what_we_export_is_the_backbone_of_the_run(run, images, tmp_path, to):
    file, _ = export(run, to, tmp_path / {"timm": "b.safetensors", "torchscript": "b.pt"}[to])
    encoder = care.load(run)
    if to == "timm":
        model = load_pretrained(f"timm/test_resnet@{file}", encoder.mean.tolist(), encoder.std.tolist())
    else:
        model = load_pretrained(str(file))
    assert model.outputs == ("features",)
    torch.testing.assert_close(model.embed(images)["features"], encoder.features(images), rtol=1e-4, atol=1e-5)


def test_random_weights_are_the_same_every_time(images):
    state = torch.get_rng_state()
    first = load_pretrained("timm/test_efficientnet@random")
    assert torch.equal(state, torch.get_rng_state())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        second = load_pretrained("timm/test_efficientnet@random")
    assert (first.name, first.size) == ("test_efficientnet@random", 160)
    assert first.normalization == "mean 0.485, 0.456, 0.406; std 0.229, 0.224, 0.225"
    assert not any(parameter.requires_grad for parameter in first.encoder.parameters())
    torch.testing.assert_close(first.embed(images), second.embed(images), rtol=0, atol=0)
    plain = first.encoder.backbone.eval()(normalized(images, *IMAGENET))
    torch.testing.assert_close(first.embed(images)["features"], plain)


@pytest.mark.parametrize("channels", [None, ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))])
def test_published_weights_and_timms_normalization(no_hub, images, channels):
    with torch.random.fork_rng():
        network = timm.create_model("test_efficientnet", num_classes=7).eval()
    publish(no_hub[0], "test_efficientnet.r160_in1k", network.state_dict())
    mean, std = channels or (None, None)
    model = load_pretrained("timm/test_efficientnet.r160_in1k", mean, std)
    assert model.name == "test_efficientnet.r160_in1k"
    network.reset_classifier(0)
    torch.testing.assert_close(model.embed(images)["features"], network(normalized(images, *(channels or IMAGENET))))


def test_local_weights_without_their_classifier(tmp_path, images):
    network = timm.create_model("test_efficientnet", num_classes=7).eval()
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    model = load_pretrained(f"timm/test_efficientnet@{tmp_path / 'w.safetensors'}")
    network.reset_classifier(0)
    assert (model.name, model.size) == ("test_efficientnet@w", 160)
    torch.testing.assert_close(model.embed(images)["features"], network(normalized(images, *IMAGENET)))


def test_a_stem_for_small_images_is_recognized(tmp_path, images):
    backbone, _ = build_backbone("resnet18", (32, 32))
    save_file(backbone.state_dict(), tmp_path / "small.safetensors")
    model = load_pretrained(f"timm/resnet18@{tmp_path / 'small.safetensors'}", (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    assert (model.size, model.normalization) == (None, "none")
    torch.testing.assert_close(model.embed(images)["features"], backbone.eval()(images))


@pytest.mark.parametrize("suffix", [".pt", ".ts", ".torchscript"])
def test_torchscript_of_others(tmp_path, images, suffix):
    file = script(ChannelMeans(), tmp_path / f"theirs{suffix}", images)
    plain, shifted = load_pretrained(file), load_pretrained(file, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    assert (plain.name, plain.size, plain.normalization) == ("theirs", None, "none")
    torch.testing.assert_close(plain.embed(images)["features"], images.mean((2, 3)))
    expected = normalized(images, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)).mean((2, 3))
    torch.testing.assert_close(shifted.embed(images)["features"], expected)


def test_frozen_torchscript_is_read(tmp_path, images):
    model = timm.create_model("test_resnet", num_classes=0).eval()
    with warnings.catch_warnings(action="ignore"):
        torch.jit.freeze(torch.jit.trace(model, images)).save(str(tmp_path / "frozen.pt"))
    found = load_pretrained(str(tmp_path / "frozen.pt")).embed(images)["features"]
    torch.testing.assert_close(found, model(images).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3, 32, 32), 32), ((5, 3, 32, 32), 32), ((8, 3, 32, 32), 32), (("n", "c", "h", "w"), None)]
)
def test_onnx_of_others_whatever_its_batch(tmp_path, images, shape, size):
    file = onnx_means(tmp_path / "theirs.onnx", shape)
    model = load_pretrained(file, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    assert (model.name, model.size) == ("theirs", size)
    expected = normalized(images, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)).mean((2, 3))
    torch.testing.assert_close(model.embed(images)["features"], expected)


@pytest.mark.parametrize("what", ["{run}", "timm/test_resnet@random"])
def test_all_of_a_model_moves(run, images, what):
    model = load_pretrained(what.format(run=run))
    model.embed(images)
    assert model.to("meta") is model
    assert {vectors.device.type for vectors in model.embed(images.to("meta")).values()} == {"meta"}


def test_without_a_hub_it_is_reported_at_once(no_hub):
    from huggingface_hub import constants

    started = time.monotonic()
    with pytest.raises(
        ValueError, match=r"weights of timm/test_resnet cannot be loaded: .*this test has no network.*set HF_HOME"
    ):
        load_pretrained("timm/test_resnet")
    with pytest.raises(ValueError, match=r"weights of timm/hf-hub:org/name@v1 cannot be loaded"):
        load_pretrained("timm/hf-hub:org/name@v1")
    assert time.monotonic() - started < 10  # the hub's own client would try for a minute and a half
    assert len(no_hub[1]) == 2  # one question each
    assert constants.HF_HUB_DISABLE_TELEMETRY


def test_a_layer_beside_the_last_features_is_read_whatever_the_run_reads(run, images):
    """With the run's normalization; against hooks on the same weights, in one pass."""
    model = load_pretrained(str(run))
    seen = {}
    backbone = model.encoder.backbone
    hooks = [
        backbone.get_submodule(name).register_forward_hook(lambda m, a, out, name=name: seen.update({name: out}))
        for name in ("layer1", "layer4")
    ]
    channels = (buffer.tolist() for buffer in (model.encoder.mean, model.encoder.std))
    with torch.no_grad():
        backbone(normalized(images, *channels))
    for hook in hooks:
        hook.remove()
    expected = torch.cat([seen[name].mean((2, 3)) for name in ("layer4", "layer1")], 1)
    for one in (model, model.with_layer("layer3")):
        torch.testing.assert_close(one.features_beside("layer1")(images), expected)
    with pytest.raises(ValueError, match="has no layer 'layer7'"):
        model.features_beside("layer7")
