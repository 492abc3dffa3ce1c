"""Every part of an evaluation on models whose answers are known beforehand, and what becomes of it on disk."""

import dataclasses
import math

import pytest
import torch

from care.augment import PointPolicy
from care.data import Samples, generate_chains
from care.evaluate import Evaluation, EvaluationSettings, evaluate_model, figures, summary
from care.evaluate.comparison.quantities import ACTED_ON, CONTRASTED, find_quantity, quantities
from care.geometry import Euclidean, Minkowski, Symplectic
from evaluate.planted import COLORS, QUICK, colors, setup, shapes


def test_an_encoder_of_color_knows_color_and_nothing_else(by_color):
    record = by_color.record
    assert record["factors"]["features"]["hue"] > 0.5
    assert record["factors"]["features"]["angle"] < 0.1
    assert record["factors"]["features"]["x"] < 0.1
    for decoder in ("decoding", "decoding_network", "decoding_bilinear"):
        assert record[decoder]["features"]["brightness"] > 0.2
        assert record[decoder]["features"]["flip"] < 0.1
    assert (
        record["retrieval"]["features"]["hue_distance"] < 0.7 * record["retrieval"]["features"]["hue_distance_chance"]
    )
    assert by_color.measurement("features").families["flip"].in_words() == "invariant"


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        ("heldout_ratio", "held-out ratio"),
        ("unexplained", "unexplained variance"),
        ("composition_error", "composition error"),
    ],
)
def test_what_is_measured_by_family_can_be_looked_up(by_color, measure, name):
    """The mean of what is saved; no number for a flip, which does not move colors."""
    saved = by_color.record["measurements"]["features"]["families"]
    values = {q.name: q.value for q in quantities(by_color) if q.group == "features"}
    for family in ("crop", "flip", "color", "gray", "blur"):
        found = [value for value in saved[family][measure] if value is not None]
        wanted = sum(found) / len(found) if found else math.nan
        assert values.get(f"{name}, {family}", math.nan) == pytest.approx(wanted, nan_ok=True)
    assert values[f"{name}, color"] != values[name]


def test_neighbors_are_those_of_the_jittered_queries(by_color):
    """To an encoder of color, a picture with another color has other neighbors, of that color."""
    found = by_color.record["retrieval"]["features"]
    assert found["overlap"] < 0.6
    assert found["hue_distance"] < 0.75 * found["hue_distance_before"]


def test_clouds_that_rotate_are_predicted_exactly():
    made = generate_chains(300, seed=0, points=8)
    samples = Samples(made.points, made.labels, tuple("0123456789"), name="chains")
    embed = lambda x: {"features": x.flatten(1)}  # noqa: E731
    evaluation = evaluate_model(setup(embed, samples, samples, policy=PointPolicy()), QUICK)
    found = evaluation.record["prediction"]["features all"]
    assert found["rotation"]["mrr"] == pytest.approx(1)
    assert found["rotation"]["parameter_error"] == pytest.approx(0)
    assert found["identity"]["mrr"] == pytest.approx(found["chance"]["mrr"], abs=0.1)
    assert evaluation.record["retrieval"] is None
    assert evaluation.measurement("features").heldout_ratio.mean < 1e-9


def test_the_form_is_that_of_the_embedding():
    """On the hyperboloid its displacement is another distance; the backbone has nothing to do with it."""
    few = EvaluationSettings(augmentations=1, probe="none", logistic=False, images=40)
    embed = lambda x: {"embedding": x.mean((2, 3)), "backbone": x.mean((2, 3))}  # noqa: E731
    plain, hyperbolic = (
        evaluate_model(setup(embed, form=form, policy=COLORS), few) for form in (Euclidean(), Minkowski())
    )
    outputs = ("embedding", "backbone")
    found = [[e.measurement(output).displacement.mean for output in outputs] for e in (plain, hyperbolic)]
    assert found[0][0] == found[0][1] == found[1][1]
    assert found[1][0] != found[0][0]


def test_the_embedding_is_measured_in_other_forms_if_asked_for():
    """As if it had been trained with them: for that, `form` says so."""
    few = EvaluationSettings(augmentations=1, probe="none", logistic=False, images=60)
    ends = lambda x: {"embedding": x[:, ::7].flatten(1), "backbone": x.flatten(1)}  # noqa: E731
    made = generate_chains(100, seed=0, points=8)
    samples = Samples(made.points, made.labels, tuple("0123456789"), name="chains")

    def ends_of_chains(form):
        return setup(ends, samples, samples, policy=PointPolicy(), form=form)

    both = evaluate_model(ends_of_chains(Euclidean()), dataclasses.replace(few, forms=("minkowski", "symplectic")))
    assert both.outputs == ["embedding", "backbone", "embedding-minkowski", "embedding-symplectic"]
    for form in (Minkowski(), Symplectic()):
        alone = evaluate_model(ends_of_chains(form), few)
        seen, own = both.measurement(f"embedding-{form.name}"), alone.measurement("embedding")
        assert (seen.values(), seen.strength, seen.length) == (own.values(), own.strength, own.length)
        values = {(q.group, q.name): q.value for q in quantities(both)}
        assert values[f"embedding-{form.name}", "held-out ratio"] == own.heldout_ratio.mean
        assert values["embedding", "held-out ratio"] != own.heldout_ratio.mean
    assert list(both.record["decoding"]) == ["embedding", "backbone"]


def test_the_equivariance_loss_acts_on_the_equivariant_part_or_on_the_whole_embedding(split, by_pixel, by_color):
    """Quantities of what it acts on are those of that part of a split embedding, else of the embedding."""
    assert split.outputs == ["embedding", "invariant", "equivariant"]
    for evaluation, output in ((split, "equivariant"), (by_pixel, "embedding"), (by_color, "features")):
        assert evaluation.equivariant_output == output
        ratio, named = (find_quantity(evaluation, group, "held-out ratio") for group in (ACTED_ON, output))
        assert ratio.value == named.value == evaluation.measurement(output).heldout_ratio.mean
        assert ratio.dimension == evaluation.measurement(output).dimension
        assert find_quantity(evaluation, ACTED_ON, "mass") is None
    for evaluation, output in ((split, "invariant"), (by_pixel, "embedding"), (by_color, "features")):
        found, named = (find_quantity(evaluation, group, "held-out ratio") for group in (CONTRASTED, output))
        assert found.value == named.value == evaluation.measurement(output).heldout_ratio.mean
    assert find_quantity(by_pixel, "equivariant", "held-out ratio") is None
    whole = find_quantity(split, "embedding", "held-out ratio")
    assert whole.value != find_quantity(split, "equivariant", "held-out ratio").value


def test_without_labels_there_is_no_probe():
    bare = Samples(shapes(60, 1).inputs, torch.full((60,), -1), ())
    evaluation = evaluate_model(setup(colors, bare, bare, policy=COLORS), QUICK)
    assert evaluation.record["probe"] is None
    assert evaluation.record["knn"] is None
    assert evaluation.record["retrieval"]["features"]["class_precision"] is None
    assert "no labels" in summary(evaluation)


def test_without_training_samples_all_else_is_measured(by_color):
    bare = dataclasses.replace(setup(colors), train=None)
    evaluation = evaluate_model(bare, dataclasses.replace(QUICK, probe="none"))
    assert evaluation.record["knn"] is None
    assert evaluation.record["measurements"] == by_color.record["measurements"]
    assert evaluation.record["retrieval"] == by_color.record["retrieval"]
    assert "no split train" in summary(evaluation)
    for settings in (QUICK, dataclasses.replace(QUICK, probe="none", logistic=True)):
        with pytest.raises(ValueError, match="a probe needs training samples, and there are none"):
            evaluate_model(bare, settings)


def test_it_is_repeatable_saved_and_read_back(by_color, tmp_path):
    again = evaluate_model(setup(colors), QUICK)
    assert {k: v for k, v in again.record.items() if k != "seconds"} == {
        k: v for k, v in by_color.record.items() if k != "seconds"
    }
    by_color.save(str(tmp_path / "evaluation"))
    read = Evaluation.load(str(tmp_path / "evaluation"))
    assert read.record == by_color.record
    assert read.arrays.keys() == by_color.arrays.keys()
    for name, values in by_color.arrays.items():
        torch.testing.assert_close(read.arrays[name], values, rtol=0, atol=0, equal_nan=True)
    assert summary(read) == summary(by_color)


@pytest.mark.parametrize("file", ["evaluation.json", "arrays.safetensors"])
def test_a_damaged_evaluation_is_refused(by_color, tmp_path, file):
    by_color.save(tmp_path)
    data = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="damaged"):
        Evaluation.load(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(ValueError, match=f"{file} is missing"):
        Evaluation.load(tmp_path)


def test_the_summary_and_the_figures_show_all_of_it(by_pixel):
    text = " ".join(summary(by_pixel).split())
    for words in (
        "linear probe (paper)",
        "kNN, k = 200",
        "embedding: 200 images",
        "backbone: 200 images",
        "MRR",
        "hue distance",
        "200 images give R² ± 0.15 at best; 456 are needed",
    ):
        assert words in text
    pictures = figures({"planted": by_pixel}, {"planted": [{"epoch": 1, "positive_cosine": 0.5}]})
    kinds = {name.split("-")[0] for name in pictures}
    assert kinds == {"responses", "spectrum", "wahba", "cosines", "neighbors", "positive"}
    assert len(pictures) == 11


def test_arrays_agree_with_the_record(by_pixel):
    record, arrays = by_pixel.record, by_pixel.arrays
    assert arrays["correct/probe"].double().mean().item() == pytest.approx(record["probe"]["mean"])
    assert arrays["correct/knn20"].double().mean().item() == pytest.approx(record["knn"]["20"])
    cosine = by_pixel.measurement("embedding").families["all"].cosine
    assert arrays["cosine/embedding"].mean(1).tolist() == pytest.approx(cosine.values, abs=1e-6)
    assert arrays["positive/embedding"].mean().item() == pytest.approx(record["positive_cosine"]["embedding"], abs=1e-6)
    all_of_them, standing_for_them = (
        torch.as_tensor(values).sort().values
        for values in (arrays["positive/embedding"], record["positive_quantiles"]["embedding"])
    )
    places = torch.linspace(-1, 1, 201)
    below = [torch.searchsorted(values, places) / len(values) for values in (all_of_them, standing_for_them)]
    assert len(arrays["positive/embedding"]) == 2 * len(
        arrays["cosine/embedding"][0]
    )  # of 5 augmentations: the first four
    assert (below[0] - below[1]).abs().max() <= 0.5 / len(standing_for_them) + 1 / len(all_of_them)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probe": "best"}, "probe must be one of paper, imagenet100, none"),
        ({"probe_on": "x"}, "probe_on must be one of clean, crops, augmented, bn-train"),
        ({"neighbors": (20, 20)}, "neighbors must be different numbers"),
        ({"neighbors": ()}, "neighbors must be different numbers, each at least 1"),
        ({"neighbors": (0,)}, "neighbors must be different numbers, each at least 1"),
        ({"temperature": 0.0}, "temperature must be greater than 0"),
    ],
)
def test_unknown_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        EvaluationSettings(**changes)


@pytest.mark.parametrize(("epochs", "falls"), [(1, ()), (3, (2,)), (6, (3, 4, 5)), (60, (30, 40, 50))])
def test_a_probe_of_few_epochs_has_the_falls_that_fit(epochs, falls):
    assert EvaluationSettings(probe="imagenet100", probe_epochs=epochs).protocol().milestones == falls
