"""`care evaluate`, `care measure` and `care compare`, from the command to the files."""

import json
import re
import shutil

import pytest
import torch
from typer.testing import CliRunner

from care import export
from care.cli import app
from care.cli.options import channels
from care.data import load
from care.evaluate import Evaluation, compare_evaluations
from care.evaluate.effects.measurement import Measurement
from care.evaluate.features.tuned_logistic import PENALTIES
from care.tables import WIDE
from care.train import default_config, prepare, train
from coarse_drawing import coarse_drawing
from train.small import small_config, small_data

QUICK = ["--images", "60", "--augmentations", "2", "--device", "cpu"]


DRAWN = "spectrum-embedding"


@pytest.fixture(scope="module", autouse=True)
def quick():
    """One picture is drawn, and networks that decode learn for a few epochs: neither is what is tested here."""
    with coarse_drawing(only=(DRAWN,)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("care.evaluate.decoding.network.EPOCHS", 3)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    train(prepare(small_config(small_data(folder / "data", n=100), epochs=1), folder / "mine"))
    return folder / "mine"


@pytest.fixture(scope="module")
def output(run):
    result = CliRunner().invoke(app, ["evaluate", str(run), *QUICK, "--probe-epochs", "2", "--seeds", "2"])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_time_at_the_end_is_that_of_everything(run, output):
    """Not less than that of the last line of progress, nor than that of the measurements alone."""
    *_, last = re.findall(r"done after ([\d.]+) s", output)
    (whole,) = re.findall(rf"{re.escape(str(run))}/evaluation: written after ([\d.]+) s in all", output)
    assert float(whole) >= float(last)


def test_evaluate_leaves_tables_and_pictures(run, output):
    assert "linear probe (paper), clean, 2 seeds" in output
    assert "held-out ratio" in output
    record = json.loads((run / "evaluation" / "evaluation.json").read_text())
    assert record["about"]["test_images"] == 20
    assert record["about"]["augmentations"] == 2
    assert (record["about"]["neighbors"], record["about"]["temperature"]) == ([20, 200], 0.07)
    assert record["about"]["logistic"]
    assert record["logistic"]["penalty"] in PENALTIES
    assert set(record["measurements"]) == {"embedding", "backbone"}
    for name in (
        "responses-embedding",
        "wahba-embedding",
        "cosines-backbone",
        "neighbors-embedding",
        DRAWN,
        "positive-cosines",
    ):
        for ending in ("png", "svg"):
            assert (run / "evaluation" / f"{name}.{ending}").stat().st_size > (3000 if name == DRAWN else 0)


@pytest.mark.usefixtures("output")
def test_compare_puts_them_side_by_side(run, tmp_path):
    shutil.copytree(run, tmp_path / "same")
    result = CliRunner().invoke(app, ["compare", str(run), str(tmp_path / "same"), "--out", str(tmp_path / "both")])
    assert result.exit_code == 0, result.output
    assert "difference [95 %]" in result.output
    assert "compared with mine" in result.output
    found = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert found["differences"]["same"][0]["name"] == "linear probe (tuned)"
    assert {row["difference"] for row in found["differences"]["same"]} <= {0.0, None}
    assert (tmp_path / "both" / "differences-same.svg").exists()


@pytest.mark.usefixtures("output")
def test_the_table_says_what_is_certain_and_of_what_there_are_too_few(run):
    """All wrong before and all right now, on 20 images; and 2 augmentations, of which nothing can be said."""
    evaluation, made = Evaluation.load(run / "evaluation"), {}
    for name, right in (("before", False), ("after", True)):
        arrays = {**evaluation.arrays, "correct/knn20": torch.full((20,), right)}
        spreads = {"gamma": [1.0 + right, 2.0 + right]}
        record = json.loads(json.dumps(evaluation.record))
        record["knn"]["20"] = float(right)
        for measured in record["measurements"].values():
            measured["families"]["all"] |= spreads
        made[name] = Evaluation(record, arrays)
    shown = compare_evaluations(made).table(WIDE).splitlines()
    # From the last to the first: neighbors are those of the backbone, before those of other outputs.
    lines = {line.split("  ")[1].strip(): line for line in reversed(shown) if line.startswith("  ")}
    assert lines["kNN, k = 20 ↑"].split("   ")[-1].strip() == "yes, one seed"
    assert "+100 points [+100, +100]" in lines["kNN, k = 20 ↑"]
    assert lines["γ_f ↓"].endswith(" +1")
    (note,) = (line for line in shown if line.startswith("yes: "))
    assert "20 test images" in note
    assert "2 augmentations" in note
    assert any(line.startswith("no interval: fewer than 5 images or augmentations") for line in shown)


@pytest.mark.usefixtures("output")
def test_what_an_earlier_version_did_not_measure_is_not_compared(run, tmp_path, no_pictures):
    shutil.copytree(run, tmp_path / "earlier")
    evaluation = Evaluation.load(tmp_path / "earlier" / "evaluation")
    for measured in evaluation.record["measurements"].values():
        for family in measured["families"].values():
            del family["heldout_linear"]
    evaluation.save(tmp_path / "earlier" / "evaluation")
    result = CliRunner().invoke(app, ["compare", str(run), str(tmp_path / "earlier"), "--out", str(tmp_path / "both")])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "both" / "comparison.json").read_text())["differences"]["earlier"]
    names = {row["name"] for row in found}
    assert "unexplained variance" in names
    assert "held-out ratio, any linear map" not in names


@pytest.mark.usefixtures("output")
def test_a_run_without_its_evaluation_cannot_be_compared(run, tmp_path):
    result = CliRunner().invoke(app, ["compare", str(run), str(tmp_path)])
    assert result.exit_code == 2
    assert "holds no evaluation" in result.output


@pytest.fixture
def no_pictures(monkeypatch):
    """For commands whose pictures other tests look at: to make and to draw them takes most of the time."""
    monkeypatch.setattr("care.evaluate.figures", lambda *_: {})
    monkeypatch.setattr(Measurement, "figure", lambda _: None)
    for name in ("compare", "evaluate", "measure"):
        monkeypatch.setattr(f"care.cli.{name}.save_figures", lambda *_: None)


def measured(run, what, out, *options):
    """What `care measure` writes and prints about a model on the data of the run."""
    data = ["--data", str(run.parent / "data"), "--size", "32"]
    result = CliRunner().invoke(app, ["measure", what, *data, *QUICK, "--no-families", *options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "held-out ratio" in result.output
    return json.loads((out / "measurement.json").read_text())


def test_measure_takes_anybodys_model(run, tmp_path):
    record = measured(run, "timm/test_resnet@random", tmp_path)
    assert list(record) == ["features"]
    assert list(record["features"]["families"]) == ["all"]
    assert (tmp_path / "responses-features.svg").exists()


@pytest.mark.usefixtures("no_pictures")
def test_a_measurement_that_is_replaced_is_told(run, tmp_path):
    data = ["--data", str(run.parent / "data"), "--size", "32", *QUICK, "--no-families", "--no-decode"]
    command = ["measure", "timm/test_resnet@random", *data, "--out", str(tmp_path / "out")]
    first, second = (CliRunner().invoke(app, command).output for _ in range(2))
    assert "replaced" not in first
    assert second.splitlines()[-1] == f"{tmp_path / 'out'}: the earlier measurement there was replaced"


def test_a_run_and_its_export_measure_the_same(run, tmp_path, no_pictures):
    file, _ = export.export(run, "torchscript", tmp_path / "model.pt")
    ours, theirs = (
        measured(run, str(run), tmp_path / "a", "--no-decode")["backbone"],
        measured(run, str(file), tmp_path / "b", "--no-decode")["features"],
    )
    pair = [torch.tensor(m["families"]["all"]["gamma"]) for m in (ours, theirs)]
    torch.testing.assert_close(*pair, rtol=1e-3, atol=1e-5)


def test_a_run_is_measured_on_what_it_was_trained_for(run, tmp_path, no_pictures):
    """Its data, the policy and the form of its equivariance loss, and the samples that it cut from its own data."""
    settings = {"form": "minkowski", "validation": 10, "equivariance_policy": "cifar100", "limit": 16}
    config = small_config(str(run.parent / "data"), epochs=1, equivariance="care", **settings)
    train(prepare(config, tmp_path / "other"))
    for what in (tmp_path / "other", tmp_path / "other" / "model.safetensors"):
        out = tmp_path / f"of-{what.suffix}"
        quick = [*QUICK, "--no-families", "--no-decode"]
        result = CliRunner().invoke(app, ["measure", str(what), *quick, "--out", str(out)])
        assert result.exit_code == 0, result.output
        embedding, backbone = json.loads((out / "measurement.json").read_text()).values()
        assert embedding["policy"] == backbone["policy"] == "cifar100"
        assert embedding["images"] == 10 * len(load(config.data).classes)
        assert (embedding["length"] is None, backbone["length"] is None) == (False, True)  # known where not all are 1


def test_a_run_of_point_clouds_needs_nothing_said(tmp_path, no_pictures):
    config = default_config("chains", limit=64, epochs=1, batch_size=32, equivariance="care", chunks=4, device="cpu")
    train(prepare(config, tmp_path / "clouds"))
    quick = [*QUICK, "--no-families", "--no-decode"]
    result = CliRunner().invoke(app, ["measure", str(tmp_path / "clouds"), *quick, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "2 augmentations of rotations" in result.output


OTHERS = "timm/test_resnet@random"


@pytest.fixture
def only_test(run, tmp_path):
    """The data of the run without the split train."""
    shutil.copytree(run.parent / "data" / "test", tmp_path / "data" / "test")
    return str(tmp_path / "data")


def test_evaluate_without_a_probe_leaves_out_what_needs_the_split_train(only_test, tmp_path, no_pictures):
    options = ["--size", "16", "--mean", "0.5", "--std", "0.25", "--augmentations", "1"]
    out = tmp_path / "out"
    command = ["evaluate", OTHERS, "--data", only_test, *options, "--device", "cpu", "--out", str(out)]
    command += ["--probe", "none", "--no-logistic"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())  # wrapped at words
    assert "no split train, so no probe and no kNN" in said
    assert "kNN on the split train is left out: " in said
    record = json.loads((out / "evaluation.json").read_text())
    assert (record["knn"], record["about"]["train_images"]) == (None, 0)
    assert record["retrieval"]["features"]["class_precision"] > 0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("text", "numbers"), [(None, None), ("0.5", (0.5,) * 3), ("1, 2,3e-1", (1.0, 2.0, 0.3))])
def test_one_number_stands_for_all_channels(text, numbers):
    assert channels("--mean", text) == numbers


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["evaluate", "timm/test_resnet@random"], "--data NAME"),
        (["evaluate", "no-such-run", "--data", "shapes"], "does not exist"),
        (["measure", "timm/resnet5"], "did you mean"),
        (["measure", "timm/test_resnet@random", "--mean", "a,b,c"], "three numbers"),
        (["measure", "timm/test_resnet@random", "--policy", "mine"], "mine"),
        (["measure", "timm/test_resnet@random", "--data", "nothing"], "no data set is called 'nothing'"),
        (["compare", "one"], "at least two runs"),
        (["compare", "one", "one"], "given twice"),
    ],
)
def test_mistakes_are_reported_in_a_line(command, message):
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "Traceback" not in result.output
