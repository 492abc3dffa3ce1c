"""An equivariant part that is made from an intermediate layer: what its losses train, and what such a run is."""

import pytest
import torch
from typer.testing import CliRunner

import care
from care import export as exporting
from care.cli import app
from care.cli.evaluation_setup import ModelOptions, embedder_of, setup_of
from care.objective import total
from care.pretrained import load_pretrained
from care.train import prepare, train
from objective.small import build, drawn, noise
from train.small import small_config, small_data

LAYER = {"model": "test_resnet", "equivariance": "split", "equivariant_layer": "layer2"}
APART = {**LAYER, "stop_gradient": True}
LATER = ("encoder.backbone.layer3", "encoder.backbone.layer4", "encoder.head.")


def gradients(objective, terms, names):
    total({name: terms[name] for name in names}).backward()
    return {name: p.grad for name, p in objective.named_parameters() if p.grad is not None and p.grad.any()}


@pytest.mark.parametrize("method", ["simclr", "byol", "mocov2"])
def test_its_losses_train_the_backbone_up_to_the_layer_and_nothing_else(method):
    objective = build(method=method, **LAYER)
    terms = objective(drawn(objective, noise()))
    reached = gradients(objective, terms, ("equivariance", "slice", "orbit"))
    assert not [name for name in reached if name.startswith(LATER)]
    assert {"encoder.backbone.conv1.0.weight", "encoder.equivariant_head.0.weight"} <= set(reached)
    assert any(name.startswith("encoder.backbone.layer2") for name in reached)


def test_the_methods_loss_trains_all_but_the_head_of_the_equivariant_part():
    objective = build(**LAYER)
    reached = gradients(objective, objective(drawn(objective, noise())), ("info_nce",))
    assert not [name for name in reached if name.startswith("encoder.equivariant_head")]
    assert {name.rpartition(".")[0] for name in reached} >= {
        "encoder.backbone.conv1.0",
        "encoder.head.0",
        "encoder.head.3",
    }


@pytest.mark.parametrize("chosen", [APART, {**APART, "model": "small_resnet", "equivariant_layer": "blocks.0"}])
def test_with_stop_gradient_its_losses_train_its_head_alone(chosen):
    objective = build(**chosen)
    reached = gradients(objective, objective(drawn(objective, noise())), ("equivariance", "slice", "orbit"))
    assert {name.rpartition(".")[0].rpartition(".")[0] for name in reached} == {"encoder.equivariant_head"}


def test_with_stop_gradient_its_part_is_that_of_evaluation_but_for_its_own_batchnorm():
    objective = build(**APART, head_batchnorm=False)
    views = [noise(seed=seed) for seed in range(2)]
    objective.encoder.encode_views(views)  # so that running statistics are not those of the start
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    parts = objective.encoder.equivariant_parts(views)
    torch.testing.assert_close(objective.state_dict(), before, rtol=0, atol=0)
    objective.eval()
    torch.testing.assert_close(parts, [objective.encoder(view)[:, 5:] for view in views])


@pytest.mark.parametrize(
    ("method", "layer", "optimizer"),
    [("simclr", "layer2", "muon"), ("byol", None, "muon"), ("mocov2", "act1", "adam")],
)
def test_with_stop_gradient_a_run_is_bit_for_bit_that_of_its_method_alone(method, layer, optimizer, tmp_path):
    """Muon steps matrices of one rank together: were the head of the equivariant part among them, others would round
    otherwise."""
    alone = {"model": "test_resnet", "method": method, "epochs": 1, "embedding_dim": 8, "optimizer": optimizer}
    alone |= {"head_width": 512}
    kept = {"equivariance": "split", "embedding_dim": 24, "equivariant_dim": 16, "stop_gradient": True}
    data = small_data(tmp_path / "data")
    for name, chosen in (("alone", alone), ("kept", {**alone, **kept, "equivariant_layer": layer})):
        train(prepare(small_config(data, **chosen), tmp_path / name))
    ours, theirs = (care.load(tmp_path / name).state_dict() for name in ("kept", "alone"))
    assert [name for name, value in theirs.items() if not torch.equal(value, ours[name])] == []
    assert {name.partition(".")[0] for name in ours.keys() - theirs.keys()} == {"equivariant_head"}


def test_views_of_one_pass_are_those_of_separate_passes():
    """BatchNorm of the new head, too, sees each view for itself, and its running statistics follow in order."""
    together, apart = build(**LAYER), build(**LAYER)
    views = [noise(seed=seed) for seed in range(3)]
    joint = together.encoder.encode_views(views)
    separate = [apart.encoder.encode(view) for view in views]
    torch.testing.assert_close(joint, separate)
    torch.testing.assert_close(together.state_dict(), apart.state_dict())


def test_activations_cannot_be_checkpointed_around_it(tmp_path):
    with pytest.raises(ValueError, match="activation_checkpointing does not work with an equivariant_layer"):
        small_config("shapes", **LAYER, activation_checkpointing=True)
    shared = {"activation_checkpointing": True, "epochs": 1, "limit": 32}
    config = small_config(small_data(tmp_path / "data"), **APART, **shared)
    train(prepare(config, tmp_path / "checkpointed"))
    train(prepare(config.replace(activation_checkpointing=False), tmp_path / "kept"))
    found = [care.load(tmp_path / name).state_dict() for name in ("checkpointed", "kept")]
    torch.testing.assert_close(*found)


def test_a_name_that_is_none_is_refused_before_anything_is_made(tmp_path):
    config = small_config(small_data(tmp_path / "data"), **LAYER | {"equivariant_layer": "layer22"})
    with pytest.raises(ValueError, match=r"no layer 'layer22'; its layers are act1, .*; did you mean layer2\?"):
        prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layer")
    train(prepare(small_config(small_data(folder / "data"), epochs=1, limit=16, **LAYER), folder / "run"))
    return folder / "run"


@pytest.fixture
def images(generator):
    return torch.rand(4, 3, 32, 32, generator=generator)


def test_its_outputs_are_those_of_one_encoder(run, images):
    model, encoder = load_pretrained(str(run)), care.load(run)
    z, found = encoder(images), model.embed(images)
    assert tuple(found) == model.outputs == ("embedding", "invariant", "equivariant", "backbone", "intermediate")
    seen = []
    encoder.backbone.layer2.register_forward_hook(lambda *call: seen.append(call[-1]))
    torch.testing.assert_close(found["backbone"], encoder.features(images))
    torch.testing.assert_close(found["intermediate"], seen[0].mean((2, 3)))
    torch.testing.assert_close(found["equivariant"], z[:, 5:])
    torch.testing.assert_close(encoder.equivariant_head(found["intermediate"]), z[:, 5:])


@pytest.mark.parametrize("to", ["timm", "torchscript"])
def test_it_is_exported_as_any_run(run, to, images):
    file, difference = exporting.export(run, to, run.parent / exporting.FILES[to])
    assert difference < 1e-4
    again = load_pretrained(f"timm/test_resnet@{file}" if to == "timm" else str(file))
    torch.testing.assert_close(again.embed(images)["features"], care.load(run).features(images), rtol=1e-3, atol=1e-4)


def test_any_layer_of_any_model_is_measured_beside_it(run, images):
    simple = load_pretrained("timm/test_resnet@random", layer="layer3")
    assert simple.outputs == ("features", "intermediate")
    seen = []
    simple.encoder.backbone.layer3.register_forward_hook(lambda *call: seen.append(call[-1]))
    torch.testing.assert_close(simple.embed(images)["intermediate"], seen[0].mean((2, 3)))
    plain = load_pretrained("timm/test_resnet@random").embed(images)["features"]
    torch.testing.assert_close(simple.embed(images)["features"], plain)
    assert load_pretrained(str(run), layer="layer2").outputs[-1] == "intermediate"
    with pytest.raises(ValueError, match="equivariant part of run is made from layer2, which is read: leave out layer"):
        load_pretrained(str(run), layer="layer3")


def test_commands_measure_a_layer(run):
    """`care measure` and `care evaluate` have one output more, for every measure that they make of each."""
    data = str(run.parent / "data")
    embedder, _ = embedder_of(ModelOptions("timm/test_resnet@random", data, layer="layer3"), 20)
    assert list(embedder.clean()) == ["features", "intermediate"]
    assert list(setup_of(ModelOptions(str(run)), "unused").embed(torch.rand(2, 3, 32, 32)))[-1] == "intermediate"
    for command in ("measure", "evaluate"):
        arguments = ["timm/test_resnet@random", "--data", data, "--layer", "layer9", "--out", str(run.parent / "none")]
        result = CliRunner().invoke(app, [command, *arguments])
        assert result.exit_code == 2
        assert "ResNet has no layer 'layer9'; its layers are act1, layer1" in result.output
        assert not (run.parent / "none").exists()
