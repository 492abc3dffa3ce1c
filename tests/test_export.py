"""What is exported computes the same in another program, or is not kept."""

import re
import shutil

import huggingface_hub
import PIL.Image
import pytest
import timm
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import care
from care import export as exporting
from care.cli import app
from care.cli.evaluation_setup import is_run
from care.evaluate import Evaluation
from care.export import formats
from care.export.model_card import EQUIVARIANCES, METHODS, model_card
from care.models import Encoder
from care.objective.registry import names
from care.pretrained import load_pretrained
from care.train import Config, Run, prepare, train
from care.train.initial import initial_encoder, read_initial
from care.train.trained import load_trained
from train.small import small_config, small_data

TIMM = {"model": "test_resnet", "size": 32}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    train(prepare(small_config(small_data(folder / "data"), **TIMM, epochs=1, equivariance="care"), folder / "run"))
    return folder / "run"


@pytest.mark.parametrize("to", ["timm", "torchscript", "onnx"])
def test_the_exported_encoder_agrees(run, to):
    result = CliRunner().invoke(app, ["export", str(run), "--to", to])
    assert result.exit_code == 0, result.output
    assert "relative difference" in result.output
    assert len(result.output.splitlines()) == 1  # and nothing that torch says of its exporter
    assert (run / exporting.FILES[to]).stat().st_size > 10_000


def normalized(encoder, images):
    return (images - encoder.mean.view(1, 3, 1, 1)) / encoder.std.view(1, 3, 1, 1)


def test_timm_loads_the_backbone(run):
    file, _ = exporting.export(str(run), "timm")
    model = timm.create_model("test_resnet", num_classes=0)
    model.load_state_dict(load_file(file))
    encoder, images = care.load(run), torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model.eval()(normalized(encoder, images)), encoder.features(images))


@pytest.mark.usefixtures("coarse_pictures")
def test_what_was_exported_is_measured_as_the_run_is(run):
    """By whoever may read the run: with its normalization, and with views of its size."""
    file, _ = exporting.export(run, "timm")
    subject, images = load_pretrained(f"timm/test_resnet@{file}"), torch.rand(4, 3, 12, 12)
    torch.testing.assert_close(subject.embed(images)["features"], care.load(run).features(images))
    assert subject.size == 32
    assert file.stat().st_mode & 0o777 == (run / "model.safetensors").stat().st_mode & 0o777
    arguments = [f"timm/test_resnet@{file}", "--images", "20", "--augmentations", "1", "--out", str(run / "measured")]
    assert CliRunner().invoke(app, ["measure", *arguments]).exit_code == 0


def test_a_network_that_timm_does_not_have_is_not_exported_to_it(tmp_path):
    data = small_data(tmp_path / "data")
    train(prepare(small_config(data, epochs=1, model="small_resnet"), tmp_path / "run"))
    with pytest.raises(ValueError, match="timm does not build small_resnet at all: use `to` onnx"):
        exporting.export(tmp_path / "run", "timm")


def test_another_function_is_not_kept(run, monkeypatch):
    monkeypatch.setattr(formats, "_write_torchscript", lambda features, file, example: lambda x: 2 * features(x))
    (run / "encoder.pt").unlink(missing_ok=True)
    with pytest.raises(RuntimeError, match="no file is written"):
        exporting.export(run, "torchscript")
    assert not (run / "encoder.pt").exists()


@pytest.fixture(scope="module")
def folder(run):
    result = CliRunner().invoke(app, ["export", str(run), "--to", "huggingface", "--out", str(run.parent / "mine")])
    assert result.exit_code == 0, result.output
    return run.parent / "mine"


def test_timm_loads_the_folder(run, folder):
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    encoder, images = care.load(run), torch.rand(2, 3, 32, 32)
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    torch.testing.assert_close(model(normalized(encoder, images)), encoder.features(images))
    prepared = timm.data.resolve_model_data_config(model)
    found = [list(prepared[name]) for name in ("input_size", "mean", "std")]
    assert found == [[3, 32, 32], encoder.mean.tolist(), encoder.std.tolist()]
    classifier = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=5).eval()
    assert classifier(images).shape == (2, 5)
    assert torch.equal(classifier.conv1[0].weight, model.conv1[0].weight)


def test_care_measures_the_folder_as_it_does_the_run(run, folder):
    subject, images = load_pretrained(f"timm/local-dir:{folder}"), torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(subject.embed(images)["features"], care.load(run).features(images))


def test_the_hub_would_hand_over_the_same(run, folder, tmp_path, monkeypatch):
    """From its cache, as it is after a download: no network."""
    snapshot = tmp_path / "models--somebody--mine" / "snapshots" / "0"
    shutil.copytree(folder, snapshot)
    (tmp_path / "models--somebody--mine" / "refs").mkdir()
    (tmp_path / "models--somebody--mine" / "refs" / "main").write_text("0")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    model = timm.create_model("hf-hub:somebody/mine", pretrained=True, cache_dir=tmp_path).eval()
    encoder, images = care.load(run), torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model(normalized(encoder, images)), encoder.features(images))


def test_the_card_states_data_method_and_measures(run, folder):
    card = huggingface_hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "timm"
    assert card.data.license is None
    record = Run(run).log()[-1]
    for words in (
        "on noise (48 pictures of 12 × 12, made) by SimCLR, with CARE",
        "| care_weight | 3.0 |",
        "| epochs | 1 |",
        f"| trained with | care {care.__version__} |",
        f"| kNN accuracy of the features, k = 20 | {record['knn']:.3f} |",
    ):
        assert words in card.content
    assert str(run.parent) not in card.content
    code = card.content.split("```python\n")[1].split("```")[0].replace("FOLDER", str(folder))
    picture = PIL.Image.new("RGB", (40, 50))
    names = {"picture": picture}
    exec(code, names)
    assert names["features"].shape == (1, int(re.search(r"gives \[1, (\d+)\]", code)[1]))


def test_the_card_has_the_evaluation_if_there_is_one(run, tmp_path):
    record = {
        "about": {"test_images": 20, "split": "test", "probe": "paper"},
        "logistic": {"accuracy": 0.75, "path": []},
        "probe": {"mean": 0.5, "std": 0.01},
        "knn": {"20": 0.25},
    }
    shutil.copytree(run, tmp_path / "run")
    Evaluation(record, {}).save(tmp_path / "run" / "evaluation")
    card = model_card(tmp_path / "run", load_trained(tmp_path / "run"))
    assert "on 20 pictures (test)" in card
    rows = "| linear probe (tuned) | 75.0 % |\n| linear probe (paper) | 50.0 ± 1.0 % |\n| kNN, k = 20 | 25.0 % |"
    assert rows in card


def test_a_transformer_keeps_its_size(tmp_path):
    config = small_config(small_data(tmp_path / "data"), model="test_vit", size=32)
    with torch.random.fork_rng():
        encoder = Encoder.build("test_vit", (32, 32), 8, 16).eval()
    Run(tmp_path).save_encoder(encoder, config, (32, 32))
    file, difference = exporting.export(tmp_path, "huggingface")
    assert difference < 1e-5
    model = timm.create_model(f"local-dir:{file}", pretrained=True).eval()
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model(images), encoder.features(images))


@pytest.mark.parametrize(("model", "message"), [("resnet18", "with the stem"), ("small_resnet", "at all")])
def test_what_timm_does_not_build_is_not_exported_to_it(tmp_path, model, message):
    config = small_config(small_data(tmp_path / "data"), model=model)
    Run(tmp_path).save_encoder(Encoder.build(model, (32, 32), 8, 16), config, (32, 32))
    with pytest.raises(ValueError, match=f"timm does not build {model} {message}.*: use `to` onnx"):
        exporting.export(tmp_path, "huggingface")
    assert not (tmp_path / "huggingface").exists()


def test_a_folder_that_is_there_is_not_replaced(run, folder):
    (folder / "README.md").write_text("license: mine")
    result = CliRunner().invoke(app, ["export", str(run), "--to", "huggingface", "--out", str(folder)])
    assert result.exit_code == 2
    assert "exists: remove it, or choose another --out" in " ".join(result.output.split())
    assert (folder / "README.md").read_text() == "license: mine"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("args", "message"), [(["--to", "caffe"], "one of timm,"), (["--to", "timm"], "no-run")])
def test_mistakes_are_told_in_a_line(run, tmp_path, args, message):
    folder = run if "caffe" in args else tmp_path / "no-run"
    result = CliRunner().invoke(app, ["export", str(folder), *args])
    assert result.exit_code == 2
    assert message in result.output


def test_every_method_has_its_name_on_a_card():
    assert set(METHODS) == set(names("method"))
    assert set(EQUIVARIANCES) | {"none"} == set(names("equivariance"))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("to", "out", "ending"),
    [
        *(("timm", out, ".safetensors") for out in ("w.pth", "w.pt", "w")),
        *(("torchscript", out, ".pt or .ts or .torchscript") for out in ("torchscript", "m.bin", "m.PT")),
        *(("onnx", out, ".onnx") for out in ("onnx", "m.pt")),
    ],
)
def test_a_file_that_would_not_be_read_is_not_written(run, tmp_path, monkeypatch, to, out, ending):
    monkeypatch.setattr(formats, "load_trained", lambda _: pytest.fail("the export began"))
    with pytest.raises(ValueError, match=rf"{out} would not be read as {to}: choose an `out` that ends in {ending}$"):
        exporting.export(run, to, tmp_path / out)
    result = CliRunner().invoke(app, ["export", str(run), "--to", to, "--out", str(tmp_path / out)])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.usefixtures("coarse_pictures")
def test_care_reads_the_folder_by_its_path(run, folder, tmp_path):
    subject, images = load_pretrained(str(folder)), torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(subject.embed(images)["features"], care.load(run).features(images))
    assert (subject.name, subject.size) == ("mine", 32)
    data = str(run.parent / "data")
    arguments = [str(folder), "--data", data, "--images", "20", "--augmentations", "1", "--out", str(tmp_path / "m")]
    result = CliRunner().invoke(app, ["measure", *arguments])
    assert result.exit_code == 0, result.output
    assert not is_run(str(folder))
    assert is_run(str(run))


def test_a_run_begins_with_the_folder(run, folder):
    config = Config.of(data=str(run.parent / "data"), init=str(folder), size=32, embedding_dim=8, head_width=16)
    assert (config.model, config.stem) == ("test_resnet", "imagenet")
    images, begun = torch.rand(4, 3, 32, 32), initial_encoder(config, str(folder), (32, 32)).eval()
    torch.testing.assert_close(begun.features(images), care.load(run).features(images))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("text", "message"), [("{", "is damaged"), ('{"model_type": "vit"}', "names no model of timm")]
)
def test_a_folder_of_another_program_is_told(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    for read in (load_pretrained, read_initial):
        with pytest.raises(ValueError, match=rf"config\.json {message}"):
            read(str(tmp_path))
