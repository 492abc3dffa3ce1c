"""A trial is tried on other data sets, where they are there: once, with what `care transfer` would find."""

import dataclasses
import json

import numpy as np
import pytest

from care.data import write_store
from care.data.readers import DataSource, Example
from care.evaluate import EvaluationSettings, measure_transfer
from care.evaluate.embedder import features_of
from care.objective import policy_for
from care.pretrained import PretrainedModel, load_pretrained
from care.reproduce import Runner, Trial, run_trials, unprepared_data
from care.reproduce.presentation import cell, compared
from care.reproduce.transferring import is_prepared
from care.reproduce.trial import find_outcome
from train.small import small_config, small_data

MEASURES = EvaluationSettings(images=20, augmentations=1, probe="none")


def nothing(*words):
    pass


def colored(folder, splits):
    """A data set of 5 classes, a gray level each."""
    for split, count in splits.items():
        generator = np.random.default_rng(count)
        examples = [
            Example((40 * (i % 5) + generator.integers(0, 80, (3, 12, 12))).astype(np.uint8), i % 5)
            for i in range(count)
        ]
        write_store(
            folder / split, folder.name, split, DataSource("made", tuple("abcde"), 12, 12, count, iter(examples))
        )


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A trained trial that asks for two data sets, of which one is there."""
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CARE_DATA", str(root))
        patch.setattr("care.reproduce.transferring.TASKS", 20)
        small_data(root / "noise")
        colored(root / "levels", {"train": 60, "test": 120})
        trial = Trial("SimCLR", small_config("noise", epochs=1, device="cpu"), MEASURES, ("levels", "later"))
        shop = Runner(root / "runs", root / "kept", device="cpu")
        (outcome,) = run_trials([trial], shop, nothing)
        yield root, shop, trial, outcome


def test_it_is_what_the_measure_finds_of_the_saved_encoder(runner):
    _, shop, trial, outcome = runner
    model = load_pretrained(str(shop.runs / trial.slug))
    again = measure_transfer(
        lambda x: features_of(model.embed(x)), ["levels"], policy_for("cifar10", 16), tasks=20, few_labels=False
    )
    assert outcome.value("transfer to levels", "all labels") == pytest.approx(
        again.data["levels"]["all_labels"]["top1"]
    )
    for shots in (1, 5):
        found = outcome.value("transfer to levels", f"5-way {shots}-shot")
        assert found == pytest.approx(again.data["levels"]["few_shot"][str(shots)]["logistic"]["mean"])
    assert outcome.value("transfer to later", "all labels") is None
    assert (shop.runs / trial.slug / "transfer" / "transfer.json").exists()


def test_it_is_kept_beside_the_evaluation_and_makes_no_other_trial(runner):
    _, shop, trial, outcome = runner
    record = json.loads((shop.kept / f"{trial.slug}.json").read_text())
    assert record["transfer"]["data"]["levels"]["test_images"] == 120
    assert "levels" not in json.dumps(record["measures"])
    without = dataclasses.replace(trial, transfer=())
    assert without.slug == trial.slug
    found = find_outcome(without, shop.kept, {})
    accuracy = outcome.value("transfer to levels", "all labels")
    assert found.value("transfer to levels", "all labels") == pytest.approx(accuracy, rel=1e-5)


def test_tables_have_it_in_percent_or_a_dash(runner):
    *_, outcome = runner
    percent = 100 * outcome.value("transfer to levels", "all labels")
    assert cell([outcome], ("transfer to levels", "all labels")) == f"{percent:.2f}"
    assert cell([outcome], ("transfer to later", "all labels")) == "–"
    words = compared([outcome, outcome], "SimCLR", "SimCLR", ("transfer to levels", "all labels"), "Levels")
    assert words.startswith("Levels: SimCLR +0 points")


def test_every_image_is_embedded_once_and_what_came_since_is_added_without_training(runner, monkeypatch):
    root, shop, trial, _ = runner
    assert unprepared_data([trial, trial]) == ["later"]
    colored(root / "later", {"train": 40, "val": 30})
    assert is_prepared("later")
    watched, seen = [], []

    def progress(stage, done, total):
        watched.append(stage)

    original = PretrainedModel.embed

    def embed(self, inputs):
        seen.append(len(inputs))
        return original(self, inputs)

    monkeypatch.setattr(PretrainedModel, "embed", embed)
    (outcome,) = run_trials([trial], shop, progress)
    assert not [stage for stage in watched if stage.startswith("training")]
    assert sum(seen) == 60 + 120 + 40 + 30
    assert outcome.value("transfer to later", "all labels") is not None
    (again,) = run_trials([trial], shop, progress)
    assert sum(seen) == 60 + 120 + 40 + 30
    assert again.value("transfer to later", "all labels") == pytest.approx(
        outcome.value("transfer to later", "all labels"), rel=1e-5
    )


def test_a_registered_data_set_is_there_with_all_splits_of_the_protocol(runner):
    """Flowers-102 has a split to choose the penalty on: without it the transfer would be another."""
    root, *_ = runner
    assert is_prepared("shapes")
    colored(root / "flowers102", {"train": 5, "test": 5})
    assert not is_prepared("flowers102")
    colored(root / "flowers102", {"val": 5})
    assert is_prepared("flowers102")
    assert not is_prepared("cifar100")
