"""Canonicalization of encoders of which it is known what can be decoded."""

import dataclasses
import json
import math
import re

import pytest
import torch
from sklearn.metrics import r2_score

from care.augment import PointPolicy, hue_only, simclr
from care.evaluate.decoding.r2 import r2_units
from care.steer import Canonicalized, canonicalized_families, measure_canonicalization, probing
from care.steer.canonical import CLASS, LINEAR, NETWORK, PAIR, attributes, canonical_table, canonicalize_rows
from care.steer.families import measured_families
from care.steer.probing import crossfit, interval, least_squares, network
from steer.planted import by_class, by_hue, color_embedder, colored, hue_rotation

N = 160


def scores_of(rotation, embed=by_hue, hues=None, steps=100):
    """Pictures of nearly the same hue, so that the shift can be decoded from the picture alone.

    The probes are networks of 32 in place of 128 neurons, trained for a third as long, which is enough to decode it.
    """
    generator = torch.Generator().manual_seed(0)
    hues = 0.1 + 0.04 * torch.rand(N, generator=generator) if hues is None else hues
    embedder = color_embedder(colored(hues), embed)
    hue = [part for part in canonicalized_families(embedder.policy) if part.name == "hue"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing, "WIDTH", 32)
        patch.setattr(probing, "STEPS", steps)
        return measure_canonicalization(embedder, "out", rotation, hue)["hue"].scores


@pytest.fixture(scope="module")
def right():
    return scores_of(hue_rotation())


def test_the_augmentation_cannot_be_decoded_from_canonical_embeddings(right):
    for probe in (LINEAR, NETWORK, PAIR):
        scores = right[probe]
        assert scores.augmented.difference > 0.95, probe
        assert abs(scores.canonical.difference) < 0.05, probe
        assert abs(scores.clean.difference) < 0.05, probe
        assert scores.change.high < -0.8, probe
        assert scores.canonical.low < scores.canonical.difference < scores.canonical.high, probe


def test_the_class_stays(right):
    scores = right[CLASS]
    assert scores.augmented.difference == scores.canonical.difference == scores.clean.difference == 1


def test_the_shift_of_any_hue_is_decoded_only_given_the_clean_embedding():
    generator = torch.Generator().manual_seed(0)
    scores = scores_of(hue_rotation(), hues=torch.rand(N, generator=generator))
    assert scores[NETWORK].augmented.difference < 0.3
    assert scores[PAIR].augmented.difference > 0.7
    assert abs(scores[PAIR].canonical.difference) < 0.05


def test_a_rotation_that_the_encoder_does_not_follow_reveals_the_augmentation():
    """Nothing can be decoded from an invariant encoder until R(a)ᵀ is applied. Probes trained on z would not see it."""
    scores = scores_of(hue_rotation(), by_class, steps=1)  # of the networks, which nobody asks here
    assert abs(scores[LINEAR].augmented.difference) < 0.05
    assert scores[LINEAR].canonical.difference > 0.8


def test_canonical_embeddings_are_those_of_the_clean_pictures(generator):
    embedder = color_embedder(colored(torch.rand(600, generator=generator)))
    a = next(p for p in measured_families(embedder.policy, 1) if p.name == "hue").policy.sample(600, (8, 8), generator)
    F, z = embedder.clean()["out"], embedder.augmented_each(a)["out"]
    assert (z - F).norm(dim=1).mean() > 0.3
    assert (canonicalize_rows(hue_rotation(), z, a) - F).norm(dim=1).max() < 0.02  # the colors are bytes


def test_probes_never_predict_an_image_that_they_were_trained_on():
    X = torch.arange(20.0)[:, None, None].expand(20, 3, 1)
    trained, predicted = [], []

    def fit(features, targets):
        trained.append(set(features.flatten().tolist()))
        assert len(features) == len(targets) == 10  # images

        def predict(others):
            predicted.append(set(others.flatten().tolist()))
            return 2 * others

        return predict

    assert torch.equal(crossfit(X, torch.zeros(20, 3, 1), fit, seed=0), 2 * X)
    for seen, unseen in zip(trained, predicted, strict=True):
        assert not seen & unseen
    assert predicted[0] | predicted[1] == set(range(20))


def test_r2_is_that_of_scikit_learn(generator):
    Y, noise = (torch.randn(50, 4, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    predicted = Y + 0.5 * noise
    expected = r2_score(Y.flatten(0, 1), predicted.flatten(0, 1), multioutput="variance_weighted")
    units = r2_units(Y, predicted)
    assert units.mean().item() == pytest.approx(expected)
    assert interval(units).difference == pytest.approx(expected)


def test_the_interval_of_r2_is_as_wide_as_r2_varies():
    """R² of 300 worlds of 80 images: its interval in one of them is about ±2 standard deviations of it."""
    generator = torch.Generator().manual_seed(0)
    Y, noise = (torch.randn(300, 80, 2, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    units = [r2_units(y, y + 0.7 * e) for y, e in zip(Y, noise, strict=True)]
    found = interval(units[0])
    std = torch.stack([u.mean() for u in units]).std().item()
    assert (found.high - found.low) / (2 * 1.96 * std) == pytest.approx(1, abs=0.25)


def test_the_network_decodes_what_least_squares_cannot(generator):
    X = torch.randn(400, 1, 3, generator=generator)
    Y = X[:, :, :1] * X[:, :, 1:2]
    linear, bent = (r2_units(Y, crossfit(X, Y, fit, 0)).mean() for fit in (least_squares, network(0)))
    assert linear < 0.05
    assert bent > 0.7
    noise = torch.randn(400, 1, 1, generator=generator)
    assert abs(r2_units(noise, crossfit(X, noise, network(0), 0)).mean()) < 0.05


def test_a_single_operation_is_a_family_by_its_name():
    assert [part.name for part in canonicalized_families(hue_only(16))] == ["hue"]


def test_attributes_are_the_parameters_of_the_family(generator):
    families = {part.name: part for part in canonicalized_families(simclr(16))}
    assert set(families) == {"brightness", "contrast", "saturation", "hue", "crop"}
    drawn = {name: part.policy.sample(9, (20, 20), generator) for name, part in families.items()}
    torch.testing.assert_close(attributes(drawn["contrast"], "contrast")[:, 0], drawn["contrast"].contrast.log())
    whole_circle = dataclasses.replace(families["hue"].policy, hue=0.5).sample(9, (20, 20), generator)
    for shifted in (drawn["hue"], whole_circle):
        angle = 2 * math.pi * shifted.hue
        torch.testing.assert_close(attributes(shifted, "hue"), torch.stack([angle.cos(), angle.sin()], dim=1))
    crop = drawn["crop"]
    middle = torch.stack([(crop.left + crop.width / 2) / 20, (crop.top + crop.height / 2) / 20], dim=1)
    torch.testing.assert_close(attributes(crop, "crop"), middle)
    (rotations,) = canonicalized_families(PointPolicy())
    rotated = rotations.policy.sample(9, (4,), generator)
    torch.testing.assert_close(attributes(rotated, rotations.name), rotated.rotation.flatten(1))


def test_the_table_has_the_scores(right):
    found = {"hue": Canonicalized(right)}
    text = canonical_table(found)
    assert re.search(r"hue +class +100\.0 % +100\.0 % +100\.0, 100\.0 +100\.0 %", text)
    assert re.search(rf"hue +linear +{right[LINEAR].augmented.difference:.2f} +-?0\.0", text)
    assert "-0.00" not in text
    words = (
        r"hue canonicalized: the best probe decodes it with R² 1\.00 before and -?0\.0\d after; "
        r"the accuracy of the class is 100\.0 % before"
    )
    assert re.match(words, found["hue"].sentence("hue"))
    deaf = dataclasses.replace(right[LINEAR], augmented=right[LINEAR].canonical)
    assert "no probe decodes it, before or after" in Canonicalized({LINEAR: deaf}).sentence("hue")
    record = json.loads(json.dumps(found["hue"].to_json(), allow_nan=False))
    assert record[LINEAR]["change"]["difference"] == pytest.approx(right[LINEAR].change.difference)
    bare = Canonicalized({probe: scores for probe, scores in right.items() if probe != CLASS})
    assert "class  " not in canonical_table({"hue": bare})
    assert "class" not in bare.sentence("hue")


def test_a_network_is_stopped_by_images_that_nothing_was_fitted_to(monkeypatch, generator):
    """Least squares of 100 features leave less of 80 images than of those that they were not fitted to: the network is
    stopped by the latter, as what it will predict is."""
    X, noise = torch.randn(100, 2, 100, generator=generator), torch.randn(100, 2, 1, generator=generator)
    seen = []
    monkeypatch.setattr(probing, "_train", lambda model, X, left, cut, seed: seen.append((left, cut)))
    network(0)(X, X.sum(2, keepdim=True) + noise)
    [(left, cut)] = seen
    assert cut == 160
    assert left[cut:].square().mean() > 3 * left[:cut].square().mean()
