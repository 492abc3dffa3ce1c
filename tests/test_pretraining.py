"""One call from pictures to an encoder: the same run as on the command line."""

import json

import pytest
import torch

import care
from care.cli.train_setup import configuration
from care.data import generate_shapes
from care.objective import policy_for, view_plan
from care.train import Run, default_config, prepare, train
from care.train.summary import summary_text
from data.photos import Photos

SETTINGS = {
    "model": "small_resnet", "epochs": 1, "batch_size": 16, "embedding_dim": 8, "head_width": 16, "chunks": 4,
    "equivariance": "care", "policy": "simclr", "device": "cpu", "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def shapes():
    return generate_shapes(60, seed=3)


@pytest.fixture
def undrawn(monkeypatch):
    """Without curves.png, which takes longer than these trainings."""
    monkeypatch.setattr("care.pretraining._draw", lambda run: None)


@pytest.fixture(scope="module")
def finished(shapes, tmp_path_factory):
    out = tmp_path_factory.mktemp("pretrain") / "run"
    return out, care.pretrain(shapes.images, out=out, **SETTINGS)


def test_a_tensor_gives_the_encoder_of_the_run(finished, shapes):
    out, encoder = finished
    views = shapes.images[:2].float() / 255
    assert torch.equal(encoder(views), care.load(out)(views))
    assert not encoder.training
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert {file.name for file in out.iterdir()} >= {"config.toml", "log.jsonl", "steps.jsonl", "curves.png", "data"}
    config, (record,) = Run(out).config(), Run(out).log()
    assert (config.validation, config.size, config.data) == (20, None, str(out / "data"))
    assert record["step"] == 40 // 16
    assert record["knn"] is None
    assert record["gamma"] > 0


def test_it_is_the_run_that_the_command_line_makes_of_the_same_store(finished, tmp_path):
    out, _ = finished
    settings = {name: value for name, value in SETTINGS.items() if name != "quiet"}
    job = prepare(default_config(str(out / "data"), validation=20, **settings), tmp_path / "again")
    train(job)
    assert job.run.log() == Run(out).log()


@pytest.mark.usefixtures("undrawn")
def test_keep_is_that_of_the_command_line(shapes, tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name not in ("equivariance", "embedding_dim")}
    settings |= {"schedule": "constant"}  # which may be gone on with for longer
    care.pretrain(shapes.images, out=tmp_path / "run", keep="hue", **settings)
    asked = {name: value for name, value in settings.items() if name != "quiet"}
    data, run = str(tmp_path / "run" / "data"), Run(tmp_path / "run")
    assert run.config() == configuration({"data": data, "validation": 20, **asked}, "hue", None, None, None)
    assert run.config().equivariance_policy == "hue_only"
    care.pretrain(shapes.images, out=tmp_path / "run", keep="hue", resume=True, **{**settings, "epochs": 2})
    assert run.config().equivariant_dim == 16
    with pytest.raises(ValueError, match="choose hue, photometric or crop"):
        care.pretrain(shapes.images, out=tmp_path / "other", keep="pose", **settings)


@pytest.mark.usefixtures("undrawn")
def test_a_data_set_with_labels_and_pictures_to_watch(shapes, tmp_path):
    pairs = list(zip(shapes.images, shapes.labels.tolist(), strict=True))
    data, heldout = (Photos(part, classes=list(shapes.classes)) for part in (pairs[:40], pairs[40:]))
    care.pretrain(data, heldout=heldout, out=tmp_path / "run", **{**SETTINGS, "policy": "mocov2"})
    config, (record,) = Run(tmp_path / "run").config(), Run(tmp_path / "run").log()
    assert record["knn"] is not None
    assert (config.size, config.validation) == (32, 0)  # no larger than the pictures, and nothing is cut off


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("quiet", [False, True])
def test_what_was_chosen_is_printed_as_by_the_command(shapes, tmp_path, capsys, monkeypatch, quiet):
    """The same lines, from the same run folder; and labels that are not used are reported."""
    monkeypatch.setenv("COLUMNS", "120")
    pairs = list(zip(shapes.images, shapes.labels.tolist(), strict=True))
    care.pretrain(pairs, out=tmp_path / "run", **{**SETTINGS, "quiet": quiet})
    said = capsys.readouterr().out
    job = prepare(Run(tmp_path / "run").config(), tmp_path / "run", resume=True)
    job.lock.release()
    assert f"{summary_text(job)}\n" in said or quiet
    unused = "the labels are not used, since this list has no `classes`"
    assert (unused in said) == ("data          " in said) == (not quiet)
    if not quiet:
        assert said.index(unused) < said.index("data          ") < said.index("epoch 1")


@pytest.mark.usefixtures("undrawn")
def test_a_policy_of_ones_own_is_written_into_the_configuration(shapes, tmp_path):
    """And is that of the views: without crops and colors both are the picture, or its mirror image."""
    policy = care.augment.ImagePolicy(size=32, crop=0.0, color=0.0, gray=0.0, blur=0.0, flip=0.25)
    settings = {**SETTINGS, "policy": policy, "measure_policy": care.augment.hue_only()}
    care.pretrain(shapes.images, out=tmp_path / "run", **settings)
    config = Run(tmp_path / "run").config()
    assert (policy_for(config.policy), config.measured_policy) == (policy, "hue_only")
    assert 'policy = "' in (tmp_path / "run" / "config.toml").read_text()
    assert [view.policy for view in view_plan(config, 16).views] == 4 * [policy]
    care.pretrain(shapes.images, out=tmp_path / "run", resume=True, **{**settings, "epochs": 2})
    assert len(Run(tmp_path / "run").log()) == 2


@pytest.mark.usefixtures("undrawn")
def test_it_goes_on_with_the_same_pictures_only(finished, shapes):
    out, _ = finished
    with pytest.raises(ValueError, match=r"already holds a run: choose another `out`, or continue it with resume=True"):
        care.pretrain(shapes.images, out=out, **SETTINGS)
    with pytest.raises(ValueError, match="not the pictures that the run in"):
        care.pretrain(shapes.images.flip(3), out=out, resume=True, **SETTINGS)
    care.pretrain(shapes.images, out=out, resume=True, **{**SETTINGS, "epochs": 2})
    assert [record["epoch"] for record in Run(out).log()] == [1, 2]
    assert [json.loads(line)["step"] for line in (out / "steps.jsonl").read_text().splitlines()] == [2, 4]


@pytest.mark.usefixtures("undrawn")
def test_a_store_is_trained_on_where_it_is(finished, tmp_path):
    out, encoder = finished
    again = care.pretrain(out / "data", out=tmp_path / "run", validation=20, log_every=0, **SETTINGS)
    assert {file.name for file in (tmp_path / "run").iterdir()} & {"data", "steps.jsonl"} == set()
    assert torch.equal(again(torch.ones(2, 3, 32, 32)), encoder(torch.ones(2, 3, 32, 32)))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("data", "chosen", "message"),
    [
        (torch.zeros(20, 3, 8, 8), {"epoch": 1}, "there is no setting 'epoch'; did you mean 'epochs'"),
        (torch.zeros(20, 3, 8, 8), {"loggers": ["comet"]}, "unknown logger .comet.: choose one of"),
        (torch.zeros(20, 3, 8, 8) - 1, {}, "take Normalize out"),
        ("shapes", {"heldout": torch.zeros(2, 3, 8, 8)}, "its own held-out pictures and its own size"),
        ("nosuch", {}, "neither the name of a data set"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(data, chosen, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        care.pretrain(data, out=tmp_path / "run", **chosen)
    assert not list(tmp_path.iterdir()) or not list((tmp_path / "run").rglob("*.*"))
