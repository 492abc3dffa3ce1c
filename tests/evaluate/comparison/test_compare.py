"""Evaluations side by side: what differs, and what may not be compared."""

import copy
import json
import math
import re

import pytest
import torch

from care.evaluate import Evaluation, EvaluationSettings, compare_evaluations, evaluate_model, summary
from care.evaluate.comparison.quantities import ACTED_ON, Quantity, quantities
from care.tables import WIDE
from evaluate.planted import QUICK, colors, pixels, setup, shapes


def test_comparing_with_oneself_shows_no_difference(by_pixel):
    comparison = compare_evaluations({"one": by_pixel, "same": by_pixel})
    differences = comparison.differences["same"].values()
    assert {d.difference for d in differences} == {0}
    assert {(d.low, d.high) for d in differences if d.units >= 5} == {(0, 0)}
    assert "[+0" not in comparison.table(WIDE)  # where nothing varies, no error is known
    assert set(comparison.verdicts().values()) == {"undecided"}
    assert "yes, one seed" not in comparison.table()
    json.dumps(comparison.to_json(), allow_nan=False)


def test_comparing_shows_what_differs(by_pixel):
    """The same pictures through an encoder that is given the labels."""
    labels = shapes(400, 0).labels, shapes(200, 1).labels

    def labeled(images):
        known = labels[0] if len(images) == 400 else labels[1][: len(images)]
        onehot = torch.nn.functional.one_hot(known, 10).float()
        return {"embedding": pixels(images)["embedding"], "backbone": onehot + 0 * images.mean((1, 2, 3))[:, None]}

    other = evaluate_model(setup(labeled, batch_size=400), QUICK)
    comparison = compare_evaluations({"pixels": by_pixel, "labeled": other})
    knn = comparison.differences["labeled"]["classes", "kNN, k = 20"]
    truth = other.record["knn"]["20"] - by_pixel.record["knn"]["20"]
    assert knn.difference == pytest.approx(truth)
    assert 0 < knn.low < truth < knn.high
    verdicts = comparison.verdicts()
    assert verdicts["labeled", ("classes", "kNN, k = 20")] == "yes"
    assert verdicts["labeled", ("embedding", "held-out ratio")] == "undecided"
    assert ("labeled", ("embedding", "γ_f")) not in verdicts  # its error over images is not known
    drawn = {name: certain for name, *_, certain in comparison.rows("labeled")}
    assert drawn["kNN, k = 20"]
    assert not drawn.get("held-out ratio, embedding", False)


def test_a_verdict_is_corrected_for_the_number_of_differences(by_pixel):
    """An interval that excludes 0 is no certain difference where a hundred others were looked at."""
    record, dropped = copy.deepcopy(by_pixel.record), math.nan
    whole = record["measurements"]["embedding"]["families"]["all"]
    whole["displacement"] = [x + step for x, step in zip(whole["displacement"], (0.5, 0.8, 1.0, 1.2, 1.5), strict=True)]
    arrays = {**by_pixel.arrays, "correct/knn20": by_pixel.arrays["correct/knn20"].double()}
    arrays["correct/knn20"][5] = dropped
    comparison = compare_evaluations({"one": by_pixel, "other": Evaluation(record, arrays)})
    found = comparison.differences["other"]["embedding", "displacement"]
    assert found.low > 0
    assert found.p < 0.01
    where = "other", ("embedding", "displacement")
    assert comparison.adjusted()[where] == pytest.approx(found.p * len(comparison.verdicts()))
    assert comparison.verdicts()[where] == "undecided"
    knn = next(line for line in comparison.table(WIDE).splitlines() if line.startswith("   kNN, k = 20 "))
    assert ", 1 left out" in knn


def test_r2_of_two_models_is_compared_image_by_image(by_pixel):
    """Numbers of every scored image whose mean is R²."""
    by_pixel, compared = of_images(by_pixel, 456), 0
    changed = {k: v + 0.25 if k.startswith("decoding/network/embedding") else v for k, v in by_pixel.arrays.items()}
    comparison = compare_evaluations({"one": by_pixel, "other": Evaluation(by_pixel.record, changed)})
    for (where, name), found in comparison.differences["other"].items():
        if name.startswith("R² of") and name.endswith("network"):
            compared += 1
            assert found.difference == pytest.approx(0.25 * (where == "embedding"), abs=1e-6)
            assert found.units + found.dropped == 100
    assert compared > 0
    for q in quantities(by_pixel):
        if q.name.startswith("R² of") and q.units is not None:
            assert q.units.nanmean().item() == pytest.approx(q.value, abs=1e-5)


def of_images(evaluation, count):
    """As if measured on `count` images."""
    record = {**evaluation.record, "about": {**evaluation.record["about"], "test_images": count}}
    return Evaluation(record, evaluation.arrays)


def test_r2_of_few_images_is_left_out_as_in_an_evaluation(by_pixel):
    """Also in the rows of what the equivariance acts on, and no correction counts it. The summary prints the table of
    R² from 456 images on, with as many rows of "backbone" as there are decoders."""
    for count, printed in ((455, False), (456, True)):
        one = of_images(by_pixel, count)
        comparison = compare_evaluations({"one": one, "same": one})
        told = f"R²: – ({count} images give R² ± 0.10 at best; 456 are needed for ± 0.1)"
        assert ("backbone, linear" in summary(one)) == printed
        assert ("R² of " in comparison.table(WIDE)) == printed
        assert any(name.startswith("R²") for _, (_, name) in comparison.adjusted()) == printed
        assert (told in comparison.table(WIDE)) == (told in comparison.to_json()["left_out"]) == (not printed)


def test_the_same_output_is_compared_and_what_the_equivariance_acts_on_has_rows_of_its_own(by_pixel, split):
    comparison = compare_evaluations({"whole": by_pixel, "split": split})
    compared = {where for where, _ in comparison.differences["split"]}
    assert compared == {"classes", "embedding", ACTED_ON}
    lines = comparison.table(WIDE).splitlines()
    (heading,) = (line for line in lines if ACTED_ON.upper() in line)
    assert re.findall(r"d = \d+", heading) == ["d = 24", "d = 8"]
    assert "no rows for backbone of whole: no other model has it" in lines
    assert "no rows for equivariant of split: whole does not have it" in lines
    ratio = comparison.differences["split"][ACTED_ON, "held-out ratio"].difference
    parts = (e.measurement(e.equivariant_output).heldout_ratio.mean for e in (split, by_pixel))
    assert ratio == pytest.approx(next(parts) - next(parts))
    assert ACTED_ON.upper() not in compare_evaluations({"a": split, "b": split}).table()


def test_different_images_are_not_compared(by_color):
    other = evaluate_model(setup(colors), EvaluationSettings(augmentations=1, probe="none", logistic=False, images=100))
    with pytest.raises(ValueError, match=r"test_images: 100 .*; augmentations: 1"):
        compare_evaluations({"a": by_color, "b": other})


@pytest.mark.parametrize("what", [
    "data", "split", "test_images", "train_images", "policy", "augmentations", "seed", "probe", "probe_on",
    "probe_epochs", "learning_rates", "logistic", "neighbors", "temperature",
])  # fmt: skip
def test_evaluations_that_differ_in_how_they_were_made_are_not_compared(what, by_color):
    about = by_color.record["about"] | {what: "another"}
    other = Evaluation({**by_color.record, "about": about}, by_color.arrays)
    with pytest.raises(
        ValueError, match=f"these evaluations were made with different settings: {what}: another for planted"
    ):
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
    """Its units, which an interval is over, have the weighted mean as their mean, and do not vary without it."""
    arrays, distance = by_color.arrays, by_color.record["retrieval"]["features"]["hue_distance"]
    gray = {**arrays, "retrieval/features/hue_distance_weight": torch.zeros(200).index_fill(0, torch.tensor([3]), 1.0)}
    gray["retrieval/features/hue_distance"] = arrays["retrieval/features/hue_distance"].clone()
    gray["retrieval/features/hue_distance"][4:] = torch.nan  # what has no hue is at no distance
    only = Evaluation(by_color.record, gray)
    units = next(q.units for q in quantities(only) if q.name.startswith("hue distance"))
    assert (units[4:] == gray["retrieval/features/hue_distance"][3]).all()
    units = next(q.units for q in quantities(by_color) if q.name.startswith("hue distance"))
    assert units.mean().item() == pytest.approx(distance, rel=1e-5)


def test_quantities_from_elsewhere_have_rows_of_their_own(by_pixel):
    """Beside those of the evaluations, or alone."""
    where, some = ("transfer to x", "all labels"), (torch.arange(50) < 3).double()
    more = {"one": [Quantity(*where, 1.0, "higher", torch.ones(50))], "other": [Quantity(*where, 0.06, "higher", some)]}
    beside = compare_evaluations({"one": by_pixel, "other": by_pixel}, more)
    alone = compare_evaluations({}, more)
    for comparison in (beside, alone):
        found = comparison.differences["other"][where]
        assert found.difference == pytest.approx(3 / 50 - 1)
        assert comparison.verdicts()["other", where] == "yes"
    assert set(beside.differences["other"]) > set(alone.differences["other"])
    assert "Student's over the test images," in alone.table()


def test_a_picture_holds_a_page_of_differences():
    """Of very many, those that are certain and the accuracies."""
    units = torch.arange(50.0)
    names = [f"measure {i}" for i in range(60)]
    of = lambda more: [Quantity("embedding", n, 0.0, "lower", units * 0.01 + more * (n == names[7])) for n in names]  # noqa: E731
    accuracy = Quantity("classes", "kNN", 0.5, "higher", units % 2, percent=True)
    comparison = compare_evaluations({}, {"a": [accuracy, *of(0.0)], "b": [accuracy, *of(1.0 + units)]})
    assert [row[0] for row in comparison.rows("b")] == ["kNN", "measure 7, embedding"]
    few = compare_evaluations({}, {"a": of(0.0)[:9], "b": of(1.0 + units)[:9]})
    assert len(few.rows("b")) == 9
