"""Evaluations side by side: what differs, and what may not be compared."""

import json
import math

import pytest
import torch

from care.evaluate import Evaluation, Settings, compare_evaluations, evaluate_model
from care.evaluate.comparison.quantities import quantities
from evaluate.planted import QUICK, colors, pixels, shapes, study


def test_comparing_with_oneself_shows_no_difference(by_pixel):
    comparison = compare_evaluations({"one": by_pixel, "same": by_pixel})
    differences = comparison.differences["same"].values()
    assert {d.difference for d in differences} == {0}
    assert {(d.low, d.high) for d in differences if d.units >= 6} == {(0, 0)}
    assert "*" not in comparison.table()
    json.dumps(comparison.to_json(), allow_nan=False)


def test_comparing_shows_what_differs(by_pixel):
    """The same pictures through an encoder that is given the labels."""
    labels = shapes(400, 0).labels, shapes(200, 1).labels

    def labeled(images):
        known = labels[0] if len(images) == 400 else labels[1][: len(images)]
        onehot = torch.nn.functional.one_hot(known, 10).float()
        return {"embedding": pixels(images)["embedding"], "backbone": onehot + 0 * images.mean((1, 2, 3))[:, None]}

    other = evaluate_model(study(labeled, batch_size=400), QUICK)
    comparison = compare_evaluations({"pixels": by_pixel, "labeled": other})
    knn = comparison.differences["labeled"]["classes", "kNN, k = 20"]
    truth = other.record["knn"]["20"] - by_pixel.record["knn"]["20"]
    assert knn.difference == pytest.approx(truth)
    assert 0 < knn.low < truth < knn.high
    gamma = comparison.differences["labeled"]["embedding", "γ_f"]
    assert gamma.difference == 0
    assert math.isnan(gamma.low)  # three augmentations are too few for an interval
    assert "no interval: fewer than 6 images or augmentations" in comparison.table()
    assert any(name == "kNN, k = 20" and better == "higher" for name, *_, better in comparison.rows("labeled"))


def test_different_images_are_not_compared(by_color):
    other = evaluate_model(study(colors), Settings(augmentations=2, probe="none", logistic=False, images=100))
    with pytest.raises(ValueError, match=r"test_images: 100 .*; augmentations: 2"):
        compare_evaluations({"a": by_color, "b": other})


@pytest.mark.parametrize("what", [
    "data", "split", "test_images", "train_images", "policy", "augmentations", "seed", "probe", "probe_on",
    "probe_epochs", "learning_rates", "logistic", "neighbors", "temperature",
])  # fmt: skip
def test_evaluations_that_differ_in_how_they_were_made_are_not_compared(what, by_color):
    about = by_color.record["about"] | {what: "another"}
    other = Evaluation({**by_color.record, "about": about}, by_color.arrays)
    with pytest.raises(ValueError, match=f"these evaluations were not made alike: {what}: another for planted"):
        compare_evaluations({"a": by_color, "b": other})


def test_an_older_evaluation_is_not_compared_with_another_temperature_of_neighbors(by_color):
    """When it was no setting, it was 0.5, and k was 20 and 200."""
    known = {
        name: value for name, value in by_color.record["about"].items() if name not in ("neighbors", "temperature")
    }
    old = Evaluation({**by_color.record, "about": known}, by_color.arrays)
    assert old.unlike(old) == []
    assert by_color.unlike(old) == ["temperature: 0.07 for planted, 0.5 for planted"]
    assert old.unlike(by_color) == ["temperature: 0.5 for planted, 0.07 for planted"]


def test_an_older_logistic_regression_is_not_called_tuned(by_color):
    record = {**by_color.record, "logistic": {"penalty": 1.0, "accuracy": 0.5, "converged": True}}
    names = [q.name for q in quantities(Evaluation(record, {})) if q.group == "classes"]
    assert names[:2] == ["logistic regression", "linear probe (paper), top-1"]


def test_a_query_of_no_color_does_not_count_in_the_hue_distance(by_color):
    """Its units, which are drawn in a bootstrap, have the weighted mean as their mean, and do not vary without it."""
    arrays, distance = by_color.arrays, by_color.record["retrieval"]["features"]["hue_distance"]
    gray = {**arrays, "retrieval/features/hue_distance_weight": torch.zeros(200).index_fill(0, torch.tensor([3]), 1.0)}
    only = Evaluation(by_color.record, gray)
    for evaluation, others in ((by_color, False), (only, True)):
        units = next(q.units for q in quantities(evaluation) if q.name.startswith("hue distance"))
        assert (units[4:] == torch.tensor(distance)).all() == others
    units = next(q.units for q in quantities(by_color) if q.name.startswith("hue distance"))
    assert units.mean().item() == pytest.approx(distance, rel=1e-5)
