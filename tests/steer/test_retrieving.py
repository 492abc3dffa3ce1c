"""Steered retrieval: an encoder that a hue shift rotates, and the numbers counted in a loop."""

import dataclasses
import json
import re

import pytest
import torch

from care.augment import changed, read_changes
from care.evaluate.retrieval.hue import Hues
from care.report import GalleryRow, steered_gallery
from care.steer import (
    RetrievalResult,
    augmentation_of,
    draw_queries,
    embed_database,
    rotation_caveats,
    search,
    steered_retrieval,
)
from care.steer.retrieving import WAYS
from steer.planted import color_embedder, colored, hue_rotation, unit

K = 3


@pytest.fixture
def embedder(generator):
    return color_embedder(colored(torch.rand(200, generator=generator)))


def taking(embedder, rows):
    return dataclasses.replace(embedder, samples=embedder.samples.take(rows))


def queried(embedder, rows, make="hue=+0.2", rotation=None):
    a, database = augmentation_of(embedder, read_changes(make)), embed_database(embedder, "out")
    return search(database, rows, taking(embedder, rows), "out", rotation or hue_rotation(), a, K)


def test_a_steered_query_finds_what_the_augmented_image_finds(embedder):
    found = queried(embedder, torch.arange(40))
    means = {m: {way: found.mean(m, way).difference for way in (*WAYS, "chance")} for m in found.units}
    assert means["overlap"]["learned_rotation"] > 0.97  # the colors are bytes: two neighbors may be equally near
    assert means["overlap"]["identity"] < 0.1
    assert means["overlap"]["chance"] == pytest.approx(K / 199)
    assert means["hue_distance"]["learned_rotation"] == pytest.approx(means["hue_distance"]["augmented"], abs=1e-3)
    assert means["hue_distance"]["learned_rotation"] < 0.03
    assert means["hue_distance"]["identity"] == pytest.approx(0.2, abs=0.03)
    assert means["class_precision"]["learned_rotation"] == 1
    gain = found.gain("overlap")
    assert gain.low > 0.85
    assert gain.difference == pytest.approx(means["overlap"]["learned_rotation"] - means["overlap"]["identity"])


def test_a_wrong_rotation_finds_something_else(embedder):
    found = queried(embedder, torch.arange(40), rotation=hue_rotation(turns=-1.0))
    assert found.mean("overlap", "learned_rotation").difference < 0.1


def test_the_numbers_are_those_of_a_loop(generator):
    n, q, d = 30, 8, 6
    F, steered, augmented = (unit(generator, m, d) for m in (n, q, q))
    queries, labels = torch.arange(0, 2 * q, 2), torch.randint(3, (n,), generator=generator)
    hues, query_hues = (Hues(torch.rand(m, generator=generator), torch.rand(m, generator=generator)) for m in (n, q))
    found = steered_retrieval(F, queries, steered, augmented, hues, query_hues, labels, K)
    asked_with = dict(zip(WAYS, (F[queries], steered, augmented), strict=True))
    nearest = {
        way: [sorted(set(range(n)) - {2 * i}, key=lambda j, z=z[i]: -float(z @ F[j]))[:K] for i in range(q)]
        for way, z in asked_with.items()
    }
    for way in WAYS:
        rows = nearest[way]
        assert found.neighbors[way].tolist() == rows
        overlap = sum(len(set(rows[i]) & set(nearest["augmented"][i])) / K for i in range(q)) / q
        precision = sum(float(labels[j] == labels[2 * i]) for i in range(q) for j in rows[i]) / (q * K)
        weights, distances = [], []
        for i in range(q):
            for j in rows[i]:
                apart = abs(float(query_hues.angle[i] - hues.angle[j]))
                weights.append(float(query_hues.strength[i] * hues.strength[j]))
                distances.append(min(apart, 1 - apart))
        hue = sum(w * x for w, x in zip(weights, distances, strict=True)) / sum(weights)
        for measure, expected in (("overlap", overlap), ("class_precision", precision), ("hue_distance", hue)):
            assert found.mean(measure, way).difference == pytest.approx(expected, rel=1e-5), measure


def test_the_interval_of_the_hue_distance_is_that_of_its_weighted_mean(generator):
    """Queries drawn anew, and Σ w v / Σ w over them, 2,000 times: gray queries count less each time."""
    n, d, strength = 300, 4, torch.rand(300, generator=generator) ** 3
    F, hues = unit(generator, n, d), Hues(torch.rand(n, generator=generator), 0.5 * torch.ones(n))
    query_hues = Hues(torch.rand(n, generator=generator), strength)
    queries = torch.arange(n)
    found = steered_retrieval(F, queries, F, F, hues, query_hues, None, 2)
    apart = (query_hues.angle[:, None] - hues.angle[found.neighbors["identity"]]).abs()
    value = torch.minimum(apart, 1 - apart).mean(1)
    drawn = torch.randint(n, (2000, n), generator=generator)
    means = (strength[drawn] * value[drawn]).sum(1) / strength[drawn].sum(1)
    low, high = means.quantile(torch.tensor([0.025, 0.975])).tolist()
    interval = found.mean("hue_distance", "identity")
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_an_image_from_outside_finds_what_it_would_find_from_inside(embedder):
    """The last image, put behind the database of the others: the same neighbors, and never itself."""
    n, rows = len(embedder.samples), torch.tensor([len(embedder.samples) - 1])
    inside = queried(embedder, rows)
    others, alone = taking(embedder, torch.arange(n - 1)), taking(embedder, rows)
    database = embed_database(others, "out").followed_by(embed_database(alone, "out"))
    a = augmentation_of(alone, {"hue": 0.2})
    outside = search(database, rows, alone, "out", hue_rotation(), a, K)
    for way in WAYS:
        assert torch.equal(outside.neighbors[way], inside.neighbors[way])
        assert outside.neighbors[way].max() < n - 1


@pytest.mark.parametrize("label", [-1, 0])
def test_without_two_classes_there_is_no_precision(label, embedder):
    samples = dataclasses.replace(embedder.samples, labels=torch.full((200,), label))
    found = queried(dataclasses.replace(embedder, samples=samples), torch.arange(5))
    assert set(found.units) == {"overlap", "hue_distance"}


def test_queries_are_images_with_a_class(embedder):
    labels = torch.where(torch.arange(200) % 2 == 0, embedder.samples.labels, -1)
    database = dataclasses.replace(embed_database(embedder, "out"), labels=labels)
    rows = draw_queries(database, 50, seed=0)
    assert len(rows.unique()) == 50
    assert (labels[rows] >= 0).all()
    assert len(draw_queries(database, 1000, seed=0)) == 100
    assert torch.equal(rows, draw_queries(database, 50, seed=0))
    assert not torch.equal(rows, draw_queries(database, 50, seed=1))
    assert len(draw_queries(dataclasses.replace(database, labels=torch.full((200,), -1)), 1000, seed=0)) == 200


def test_gray_queries_have_no_hue_to_be_near_to(embedder):
    result = result_of(embedder, make="gray=1")
    assert "–" in result.table()
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize("make", ["hue=0", "x=0.3", "brightness=1", "flip=0"])
def test_a_change_of_nothing_is_refused(embedder, make):
    with pytest.raises(ValueError, match="these changes have no effect"):
        augmentation_of(embedder, read_changes(make))


def test_a_blur_has_the_kernel_of_the_policy(embedder):
    assert augmentation_of(embedder, {"blur": 1.0}).kernel_size == embedder.policy.kernel_size


def result_of(embedder, make="hue=+0.2"):
    a = augmentation_of(embedder, read_changes(make))
    one, many = queried(embedder, torch.tensor([7]), make), queried(embedder, torch.arange(40), make)
    notes = rotation_caveats(hue_rotation(), embedder.policy, a, "test")
    return RetrievalResult("mine", "out", a.describe(0), "7", 200, K, 40, one, many, notes)


def test_the_result_can_be_printed_and_written(embedder):
    result = result_of(embedder)
    text = str(result)
    assert "hue +0.200; 3 of 200 images, query 7" in text
    assert "the mean of 40 queries" in text
    assert ": a gain." in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    means = re.findall(r"(\S+) +(-?\d\.\d{3}) +(-?\d\.\d{3} to -?\d\.\d{3}|–)$", text, flags=re.MULTILINE)
    assert [float(mean) for name, mean, _ in means if name == "overlap"] == pytest.approx(
        [
            result.many.mean("overlap", way).difference
            for way in ("identity", "learned_rotation", "augmented", "chance")
        ],
        abs=5e-4,
    )
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert record["one"]["found"]["learned_rotation"] == result.one.neighbors["learned_rotation"][0].tolist()
    assert record["mean"]["overlap"]["learned_rotation - identity"]["low"] > 0.8
    assert record["one"]["overlap"]["learned_rotation"]["low"] is None


def test_an_embedding_that_does_not_react_is_said_to(embedder):
    """In place of a verdict on a rotation that has nothing to find: pictures that are gray, by their brightness."""
    levels = torch.arange(200, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8)
    samples = dataclasses.replace(embedder.samples, stored=levels.contiguous())

    def embed(images):
        angles = images.mean((1, 2, 3))[:, None] * torch.arange(1, 4)
        return {"out": torch.cat([angles.cos(), angles.sin()], 1)}

    (line,) = result_of(dataclasses.replace(embedder, samples=samples, embed=embed)).sentences()
    assert line.startswith("the embedding does not react to hue +0.200: f(q) and f(a(q)) have the same neighbors")
    assert "does not react" not in str(result_of(embedder))


def test_the_notes_say_what_the_rotation_was_not_fitted_to(embedder):
    unchanged = embedder.policy.unchanged(1, (8, 8))

    def notes(split="test", **changes):
        return " ".join(rotation_caveats(hue_rotation(), embedder.policy, changed(unchanged, changes), split))

    assert notes(hue=0.2) == ""
    assert "no generator for brightness" in notes(brightness=1.2)
    assert "hue is changed by -0.4, but the policy changes it by at most 0.25" in notes(hue=-0.4)
    assert "brightness is changed by +0.5" in notes(brightness=1.5)
    assert "fitted to these images" in notes("train", hue=0.2)


def test_the_gallery_frames_what_is_said():
    pictures = torch.rand(3, 3, 8, 8)
    framed = torch.tensor([True, False, True])
    ways = [GalleryRow("$title", pictures[0], "query", pictures, ["a", "b", "$c"], framed) for _ in range(2)]
    figure = steered_gallery(ways, "mine")
    figure.canvas.draw()
    assert [part.get_suptitle() for part in figure.subfigs] == [r"\$title"] * 2
    shown = [ax for ax in figure.subfigs[0].axes if ax.images]
    assert [ax.get_title() for ax in shown] == ["query", "a", "b", r"\$c"]
    assert [ax.spines["left"].get_linewidth() > 2 for ax in shown] == [False, True, False, True]
    with pytest.raises(ValueError, match="nothing to draw"):
        steered_gallery([], "mine")
