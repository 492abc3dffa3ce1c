"""The part of an evaluation that is fitted to classes: probes, on clean and on augmented images, and regressions."""

import dataclasses
import re

import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from torch import nn

from care.augment import ImagePolicy, PointPolicy
from care.data import Samples, generate_chains
from care.evaluate import EvaluationSettings, evaluate_model, knn_predict, summary, whitening
from care.evaluate.comparison.quantities import find_quantity, quantities
from care.evaluate.embedder import Embedder
from care.evaluate.features.augmented_probe import augmented_probe
from care.evaluate.features.classification import Classifiers, evaluate_classification
from care.evaluate.features.probe import Protocol
from care.evaluate.features.tuned_logistic import tuned_logistic
from care.evaluate.model_evaluation import _training_images
from evaluate.planted import COLORS, colors, pixels, setup, shapes


def flags(n):
    """Red, green and blue pictures, by class."""
    labels = torch.arange(n) % 3
    images = 200 * torch.nn.functional.one_hot(labels, 3).to(torch.uint8)[:, :, None, None].expand(-1, -1, 8, 8)
    return Samples(images.contiguous(), labels, ("red", "green", "blue"))


def test_labels_in_the_picture_are_found():
    samples = flags(150)
    settings = EvaluationSettings(augmentations=1, probe_epochs=50, seeds=2, learning_rates=(0.1,), neighbors=(5, 20))
    evaluation = evaluate_model(setup(lambda x: {"features": x.flatten(1)}, samples, samples, policy=COLORS), settings)
    rows = [line for line in summary(evaluation).splitlines() if "100.00" in line]
    titles = (
        "linear probe (tuned), penalty",
        "linear probe (paper), clean, 2 seeds",
        "kNN, k = 5",
        "kNN, k = 20",
        "kNN, k = 5, whitened",
        "kNN, k = 20, whitened",
    )
    assert len(rows) == len(titles)
    assert all(title in row for title, row in zip(titles, rows, strict=True))
    record = evaluation.record
    assert record["knn"] == {"5": 1.0, "20": 1.0}
    assert record["probe"]["mean"] == 1.0
    assert record["probe"]["on"] == "clean"
    path = record["logistic"]["path"]
    assert record["logistic"] == {
        "penalty": path[-1][0],
        "accuracy": 1.0,
        "mean_per_class": 1.0,
        "validation_accuracy": 1.0,
        "path": path,
        "converged": True,
    }
    assert evaluation.arrays["correct/logistic"].all()


def test_neighbors_are_those_of_each_output():
    """Red pictures look like green ones to the first output, and like themselves to the others."""

    def embed(images):
        red, green, blue = images.mean((2, 3)).unbind(1)
        return {"embedding": torch.stack([red + green, blue], 1), "backbone": torch.stack([red, green, blue], 1)}

    settings = EvaluationSettings(augmentations=1, probe="none", neighbors=(5,))
    evaluation = evaluate_model(setup(embed, flags(150), flags(90), policy=COLORS), settings)
    assert evaluation.record["knn"] == {"5": 1.0}
    assert evaluation.record["knn_outputs"] == {"embedding": {"5": pytest.approx(2 / 3)}}
    assert "kNN, k = 5, embedding  66.67 %" in re.sub(" {2,}", "  ", summary(evaluation))
    found = find_quantity(evaluation, "embedding", "kNN, k = 5")
    assert found.units.mean() == found.value == pytest.approx(2 / 3)


def test_the_logistic_regression_is_that_of_the_features():
    settings = EvaluationSettings(augmentations=1, probe="none")
    train, test = shapes(100, 0), shapes(60, 1)
    evaluation = evaluate_model(setup(colors, train, test, policy=COLORS), settings)
    rows, queries = (colors(s.inputs / 255)["features"] for s in (train, test))
    tuned = tuned_logistic(rows, train.labels)
    hits = tuned.predict(queries) == test.labels
    record = evaluation.record["logistic"]
    assert torch.equal(evaluation.arrays["correct/logistic"], hits)
    assert record["accuracy"] == pytest.approx(accuracy_score(test.labels, tuned.predict(queries)))
    assert record["mean_per_class"] == pytest.approx(balanced_accuracy_score(test.labels, tuned.predict(queries)))
    assert (record["penalty"], record["validation_accuracy"]) == (tuned.penalty, max(tuned.validation))


def test_whitened_neighbors_are_those_of_features_whitened_without_the_test_images():
    settings = EvaluationSettings(augmentations=1, probe="none", neighbors=(5,))
    train, test = shapes(200, 0), shapes(60, 1)
    evaluation = evaluate_model(setup(pixels, train, test, policy=COLORS), settings)
    rows, queries = (pixels(s.inputs / 255)["backbone"] for s in (train, test))
    whiten = whitening(rows)
    hits = knn_predict(whiten(rows), train.labels, whiten(queries), 5) == test.labels
    found = find_quantity(evaluation, "classes", "kNN, k = 5, whitened")
    assert torch.equal(found.units.bool(), hits)
    assert found.value == pytest.approx(hits.double().mean()) != evaluation.record["knn"]["5"]


def test_classes_that_no_penalty_can_be_chosen_by_have_no_logistic_regression():
    few = Samples(shapes(30, 0).inputs, torch.arange(30), tuple(map(str, range(30))))
    evaluation = evaluate_model(
        setup(colors, few, few, policy=COLORS), EvaluationSettings(augmentations=1, probe="none")
    )
    assert evaluation.record["logistic"] is None
    assert evaluation.record["knn"] is not None


@pytest.mark.parametrize(("asked", "left"), [((5, 120), ("5", "120")), ((20, 121, 200), ("20",)), ((200,), ("120",))])
def test_no_more_neighbors_are_named_than_there_are_to_vote(asked, left):
    """150 training images, of which 120 have a label."""
    samples, settings = flags(150), EvaluationSettings(augmentations=1, probe="none", logistic=False, neighbors=asked)
    labels = torch.where(torch.arange(150) % 5 == 4, -1, samples.labels)
    made = setup(lambda x: {"features": x.flatten(1)}, dataclasses.replace(samples, labels=labels), flags(60))
    evaluation = evaluate_model(dataclasses.replace(made, policy=COLORS), settings)
    assert tuple(evaluation.record["knn"]) == tuple(evaluation.record["knn_whitened"]) == left
    assert {name for name in evaluation.arrays if name.startswith("correct/")} == {
        f"correct/knn{k}{which}" for k in left for which in ("", "/whitened")
    }
    for k in ("5", "20", "120", "121", "200"):
        assert (find_quantity(evaluation, "classes", f"kNN, k = {k}") is not None) == (k in left)
        assert (f"kNN, k = {k} " in summary(evaluation)) == (k in left)


def test_too_many_neighbors_are_reported_beforehand():
    made = setup(colors, flags(90))
    assert made.note_on_neighbors(EvaluationSettings(neighbors=(20, 90))) is None
    few = "only 90 training images have a label"
    assert made.note_on_neighbors(EvaluationSettings(neighbors=(20, 91))) == f"kNN with k = 91 is left out: {few}"
    found = made.note_on_neighbors(EvaluationSettings(neighbors=(91, 200)))
    assert found == f"kNN with k = 91, 200 is left out: {few}, and k = 90 takes its place"
    one = dataclasses.replace(made.train, labels=torch.zeros(90, dtype=torch.int64))
    assert dataclasses.replace(made, train=one).note_on_neighbors(EvaluationSettings(neighbors=(91,))) is None
    few = made.note_on_neighbors(EvaluationSettings(neighbors=(43,), images=2))
    assert few.startswith("kNN with k = 43 is left out: only 42 training images")


@pytest.mark.parametrize("classes", [1, 5, 6])
def test_what_few_classes_make_certain_is_not_printed(classes):
    """Of one class everything is right, of five the label is among five guesses."""
    pictures = shapes(60, 0).inputs
    samples = Samples(pictures, torch.arange(60) % classes, tuple(map(str, range(classes))))
    settings = EvaluationSettings(augmentations=1, probe_epochs=1, seeds=1, neighbors=(5,))
    evaluation = evaluate_model(setup(colors, samples, samples, policy=COLORS), settings)
    text, names = summary(evaluation), {q.name for q in quantities(evaluation)}
    assert ("top-5" in text) == ("linear probe (paper), top-5" in names) == (classes == 6)
    assert ("one class, so no probe and no kNN" in text) == (classes == 1)
    assert ("linear probe (paper), top-1" in names) == ("kNN, k = 5" in names) == (classes > 1)
    assert ("class precision of neighbors" in names) == (classes > 1)
    assert evaluation.record["probe"] is None if classes == 1 else evaluation.record["probe"]["top5"]
    del evaluation.record["about"]["train_classes"]  # as in older records
    assert ("top-5" in summary(evaluation)) == (classes > 1)


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(192)

    def forward(self, images):
        return self.norm(images.flatten(1))


@pytest.mark.parametrize("bn_train", [False, True])
def test_batchnorm_statistics_change_only_in_training_mode(bn_train):
    module = Normalized().eval()
    train, test = shapes(120, 0), shapes(60, 1)
    embedders = [
        Embedder(lambda x: {"f": module(x)}, s, ImagePolicy(size=8), "", torch.device("cpu")) for s in (train, test)
    ]
    seen = []
    before = {name: value.clone() for name, value in module.state_dict().items()}
    augmented_probe(
        *embedders,
        Protocol(epochs=2, seeds=(0,), batch_size=50),
        module if bn_train else None,
        tick=lambda *_: seen.append(module.norm.running_mean.clone()),
    )
    changed = (seen[-1] - before["norm.running_mean"]).abs().max()
    assert (changed > 0.1) == bn_train
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not module.norm.training


def test_an_augmented_probe_learns():
    samples, policy = flags(120), ImagePolicy(size=8, kernel_size=1).only("crop", "flip")
    embedder = Embedder(lambda x: {"f": x.flatten(1)}, samples, policy, "", torch.device("cpu"))
    protocol = Protocol(epochs=20, seeds=(0, 1), learning_rates=(0.05,), batch_size=60)
    assert augmented_probe(embedder, embedder, protocol).mean == 1.0


def test_a_probe_on_crops_sees_crops_and_flips_alone():
    """Whatever the policy is: one channel is lit in every view, in half of the views on the left, anew every epoch."""
    seen, right_half = [], torch.arange(8) > 3
    train, test = (Samples(s.inputs * right_half.to(torch.uint8), s.labels, s.classes) for s in (flags(300), flags(30)))

    def embed(images):
        seen.append(images)
        return {"features": images.flatten(1)}

    policy = ImagePolicy(size=8, scale=(1.0, 1.0), flip=0.0)
    fitted, embedder = (Embedder(embed, s, policy, "", torch.device("cpu")) for s in (train, test))
    protocol = Protocol(epochs=2, seeds=(0,), learning_rates=(0.05,), batch_size=300)
    classifiers = Classifiers(logistic=False, protocol=protocol, probe_on="crops")
    record, _ = evaluate_classification(fitted, embedder, embedder.clean(), classifiers, lambda *words: None)
    assert record["probe"]["on"] == "crops"
    _, *views = (images for images in seen if len(images) == 300)
    assert len(views) == 2
    assert not torch.equal(*views)
    for images in views:
        assert images.amax() <= 200 / 255 + 1e-6
        assert (images.flatten(2).amax(2) > 0).sum(1).max() == 1
        left, right = (part.sum((1, 2, 3)) for part in images.chunk(2, dim=3))
        assert 0.3 < (left > right).double().mean() < 0.6
        assert len((images > 0).flatten(1).sum(1).unique()) > 5  # crops of many places show more of it, or less


def test_clouds_have_no_crops():
    made = generate_chains(30, seed=0, points=8)
    samples = Samples(made.points, made.labels, tuple("0123456789"), name="chains")
    with pytest.raises(ValueError, match="chains holds point clouds, which have no crops"):
        evaluate_model(setup(pixels, samples, samples, policy=PointPolicy()), EvaluationSettings(probe_on="crops"))


def test_two_learning_rates_on_augmented_images_are_refused():
    with pytest.raises(ValueError, match="one learning rate"):
        evaluate_model(
            setup(colors), EvaluationSettings(probe_on="augmented", learning_rates=(0.1, 0.2), augmentations=1)
        )


@pytest.mark.parametrize("order", ["class after class", "in turn", "as drawn"])
def test_for_a_quick_look_classifiers_are_fitted_to_the_first_of_every_class(order):
    """20 for each image asked for, in proportion: 40 of 100, 60 and 240."""
    labels = torch.arange(3).repeat_interleave(torch.tensor([100, 60, 240]))
    if order != "class after class":
        shuffled = torch.randperm(400, generator=torch.Generator().manual_seed(0))
        labels = labels[shuffled] if order == "as drawn" else labels.view(20, 20).mT.flatten()
    pictures = torch.randint(256, (400, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    train = Samples(pictures, labels, ("a", "b", "c"))
    found = _training_images(train, 2)
    assert found.labels.bincount().tolist() == [10, 6, 24]
    for kind in range(3):
        first = (labels == kind).nonzero().flatten()[: int((found.labels == kind).sum())]
        assert torch.equal(found.inputs[found.labels == kind], pictures[first])
    assert _training_images(train, 20) is _training_images(train, None) is train


def test_images_without_a_label_are_left_out():
    """As if they were not there, in training and in test images; without any label there is nothing to fit."""
    samples = flags(150)
    gaps = dataclasses.replace(samples, labels=torch.where(torch.arange(150) % 5 == 4, -1, samples.labels))
    whole = gaps.subset((gaps.labels >= 0).nonzero().flatten())
    settings = EvaluationSettings(augmentations=1, probe_epochs=5, seeds=1, neighbors=(5,))
    found, alone = (
        evaluate_model(setup(lambda x: {"features": x.flatten(1)}, some, some, policy=COLORS), settings).record
        for some in (gaps, whole)
    )
    for kind in ("knn", "logistic", "probe"):
        assert found[kind] == alone[kind]
    none = dataclasses.replace(samples, labels=torch.full((150,), -1))
    without = evaluate_model(setup(lambda x: {"features": x.flatten(1)}, none, none, policy=COLORS), settings).record
    assert without["knn"] is without["logistic"] is without["probe"] is None
