"""Measured from clouds to tables: encoders whose response to rotations is known."""

import json
import math
import re

import pytest
import torch

from care.augment import PointPolicy, mixture, simclr
from care.augment.presets import color_only, crop_only, hue_only
from care.evaluate.effects.effect import PerAugmentation
from care.evaluate.effects.families import ALL, Family
from care.geometry import composition_error, crossfit_predictions, crossfit_rotations, relative_error
from care.randomness import derive
from care.report import steering_figure
from care.steer import (
    FamilyResult,
    PooledRatio,
    fit_predictor,
    fit_rotation,
    fitting,
    measure_rotations,
    statistics_of,
    steered_families,
)
from care.steer.families import measured_families
from steer.planted import harmonics, observer_of, planted_clouds

FIT, MEASURED = [Family(ALL, PointPolicy(), 60)], [Family(ALL, PointPolicy(), 4)]


def embed(clouds):
    return torch.nn.functional.normalize(harmonics(torch.nn.functional.normalize(clouds[:, 3], dim=1)), dim=1)


def steered(fitted, unseen, rank=64):
    statistics = statistics_of(fitted, "out", FIT, rank)
    rotation, predictor = fit_rotation(statistics), fit_predictor(statistics, steps=50)
    return measure_rotations(unseen, "out", MEASURED, {"planted": rotation}, predictor)[0]


@pytest.fixture(scope="module")
def result():
    generator = torch.Generator().manual_seed(0)
    fitted, unseen = (observer_of(embed, planted_clouds(n, generator)) for n in (300, 120))
    return steered(fitted, unseen)


def test_an_equivariant_encoder_is_steered(result):
    found = result.families[ALL]
    assert found.heldout_ratio["learned_rotation"].mean < 1e-5
    assert found.composition_error["learned_rotation"].mean < 1e-5
    assert found.heldout_ratio["procrustes"].mean < 1e-5
    assert found.heldout_ratio["predictor"].mean > 0.01
    assert found.ranks["learned_rotation"]["hit_at_1"] == 1
    assert found.ranks["identity"]["hit_at_1"] < 0.5


def test_procrustes_is_that_of_measure():
    """On an encoder that rotations do not quite rotate: the same predictions as those of `care.measure`'s geometry."""
    generator = torch.Generator().manual_seed(0)
    bent = lambda x: embed(x + 0.3 * x.square())  # noqa: E731
    embedder = observer_of(bent, planted_clouds(60, generator))
    found = steered(embedder, embedder).families[ALL]
    F = embedder.clean()["out"]
    a = MEASURED[0].draw((4,), derive(0, "steered"))
    b = MEASURED[0].draw_second((4,), derive(0, "steered"))
    for i in range(4):
        F_a, F_b, F_ba = (embedder.augmented(*p)["out"] for p in ((a[i],), (b[i],), (a[i], b[i])))
        predicted = crossfit_predictions(F, crossfit_rotations(F, F_a))
        ratio = relative_error(predicted, F, F_a, "SO").item()
        assert found.heldout_ratio["procrustes"].values[i] == pytest.approx(ratio, rel=1e-4)
        error = composition_error(F, F_a, F_b, F_ba).item()
        assert found.composition_error["procrustes"].values[i] == pytest.approx(error, rel=1e-4)


def test_the_result_can_be_printed_written_and_drawn(result):
    text = str(result)
    assert re.search(r"held-out ratio\n\n +family +displacement +R\(θ\) +predictor +Procrustes\n", text)
    assert "all: per-augmentation Procrustes explains 100 % of the squared displacement" in text
    assert "ms" in text
    record = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert record["families"]["all"]["heldout_ratio"]["learned_rotation"] == list(
        result.families[ALL].heldout_ratio["learned_rotation"].values
    )
    assert record["images"] == 120
    assert len(result.figure().axes) == 1


def test_images_that_were_not_fitted_are_measured():
    """An encoder that is equivariant on the small clouds and says nothing of the rotation of the large ones.

    Had the large ones been fitted, or the small ones measured, the ratio would not be that of a useless prediction.
    """
    generator = torch.Generator().manual_seed(0)

    def leaking(clouds):
        known = embed(clouds)
        seeds = (1e4 * clouds[:, 3]).round().long().sum(1)
        noise = torch.stack([torch.randn(9, generator=torch.Generator().manual_seed(int(s) + 10**6)) for s in seeds])
        small = clouds[:, 0].norm(dim=1, keepdim=True) < 1.5
        return torch.where(small, known, torch.nn.functional.normalize(noise, dim=1))

    small, large = (observer_of(leaking, planted_clouds(80, generator, size)) for size in (1.0, 2.0))
    found = steered(small, large).families[ALL]
    assert found.heldout_ratio["learned_rotation"].mean > 0.95


def test_augmentations_that_were_not_fitted_are_measured():
    """No rotation that is read off the axes in a cloud is seen both times, but for none at all."""
    seen = []

    def noting(clouds):
        seen[-1].update(tuple(rotation.flatten().tolist()) for rotation in (1e5 * clouds[:1, :3]).round())
        return embed(clouds)

    generator = torch.Generator().manual_seed(0)
    embedder = observer_of(noting, planted_clouds(30, generator))
    families = [Family(ALL, PointPolicy(), 12)]  # equally many, so that equal seeds would draw the same
    seen.append(set())
    statistics = statistics_of(embedder, "out", families)
    seen.append(set())
    predictor = fit_predictor(statistics, steps=1)
    measure_rotations(embedder, "out", families, {"planted": fit_rotation(statistics)}, predictor)
    assert len(seen[0]) == 13
    assert len(seen[1]) > 13
    assert len(seen[0] & seen[1]) == 1


@pytest.mark.parametrize("scale", [(1.0, 1.0), (0.5, 2.0)])
def test_an_invariant_encoder_is_said_to_be_one(scale, monkeypatch):
    """With a scale there is a generator to fit, and nothing to fit it to."""
    generator = torch.Generator().manual_seed(0)

    def invariant(clouds):
        """Angles between the random point and the axes, rounded: not even the last bit reacts."""
        angles = clouds[:, 3:] @ clouds[:, :3].mT / clouds[:, :1].square().sum(2, keepdim=True)
        return torch.nn.functional.normalize((100 * angles[:, 0]).round())

    embedder = observer_of(invariant, planted_clouds(30, generator), PointPolicy(scale=scale))
    families = [Family(ALL, PointPolicy(scale=scale), 6)]
    statistics = statistics_of(embedder, "out", families)
    monkeypatch.setattr(fitting, "STEPS", 50)
    rotation = fit_rotation(statistics)
    assert rotation.generators.isfinite().all()
    (result,) = measure_rotations(embedder, "out", families, {"planted": rotation}, fit_predictor(statistics, steps=1))
    assert not result.reacts
    assert "the model hardly reacts" in str(result)
    json.dumps(result.to_json(), allow_nan=False)


def test_a_low_rank_turns_the_directions_that_matter():
    """Nine dimensions among forty: a rank of 12 is enough."""
    generator = torch.Generator().manual_seed(0)
    hide = torch.linalg.qr(torch.randn(40, 40, generator=generator)).Q[:, :9]
    fitted, unseen = (observer_of(lambda x: embed(x) @ hide.mT, planted_clouds(150, generator)) for _ in range(2))
    result = steered(fitted, unseen, rank=12)
    assert (result.dimension, result.rank) == (40, 12)
    assert result.families[ALL].heldout_ratio["learned_rotation"].mean < 1e-4


def test_colors_are_families_of_one_parameter():
    fitted = {part.name: part for part in steered_families(simclr(16), 5)}
    measured = {part.name: part for part in measured_families(simclr(16), 5)}
    assert list(fitted) == list(measured)
    assert {"all", "crop", "flip", "color", "gray", "blur", "brightness", "contrast", "saturation", "hue"} == set(
        fitted
    )
    assert (fitted["all"].count, measured["all"].count, fitted["gray"].count) == (15, 5, 1)
    drawn = fitted["hue"].draw((16, 16), seed=0)
    assert drawn.hue.unique().numel() == 5
    for name in ("brightness", "contrast", "saturation"):
        assert (getattr(drawn, name) == 1).all()


def test_what_is_the_whole_policy_is_not_drawn_twice():
    """A shift of the hue alone is a family of one parameter, and needs as many augmentations as one."""
    assert [(part.name, part.count) for part in steered_families(hue_only(16), 5)] == [("all", 5)]
    assert [(part.name, part.count) for part in measured_families(hue_only(16), 4)] == [("all", 4)]
    colors = {part.name: part.count for part in steered_families(color_only(16), 5)}
    assert colors == {"all": 15, "hue": 5, "brightness": 5, "contrast": 5, "saturation": 5}


def test_colors_of_a_single_operation_have_its_name():
    """A hue shift clamps nothing, which the sentence about the family "color" would say."""
    policy = mixture([hue_only(16), crop_only(16)])
    assert [part.name for part in steered_families(policy, 5)] == ["all", "crop", "hue"]
    drawn = measured_families(policy, 5)[-1].draw((16, 16), seed=0)
    assert drawn.hue.abs().min() > 0
    assert (drawn.brightness == 1).all()


def counting(clouds):
    """An embedder, and a list that gets an entry for every time that it embeds all of its clouds."""
    calls = []
    return observer_of(lambda x: calls.append(len(x)) or embed(x), clouds), calls


def test_every_augmentation_is_embedded_once(generator):
    """Also those that the basis is computed from, and for two rotations no more often than for one."""
    embedder, calls = counting(planted_clouds(30, generator))
    statistics = statistics_of(embedder, "out", [Family(ALL, PointPolicy(), 20)], rank=6)
    assert len(calls) == 1 + 20
    rotation, predictor = fit_rotation(statistics), fit_predictor(statistics, steps=1)
    counts, results = [], []
    for rotations in ({"one": rotation}, {"one": rotation, "two": rotation}):
        calls.clear()
        results += measure_rotations(embedder, "out", MEASURED, rotations, predictor)
        counts.append(len(calls))
    assert counts[0] == counts[1]
    assert [result.model for result in results] == ["one", "one", "two"]
    assert results[0].families == results[2].families


def ratios_of(value):
    return {name: PooledRatio((value[name],), (1.0,)) for name in ("learned_rotation", "predictor", "procrustes")}


@pytest.mark.parametrize(
    ("displacement", "learned", "procrustes", "words"),
    [
        (
            0.5,
            0.22,
            0.2,
            "explains 80 % of .*; the held-out ratio of R.θ. is 0.220, 10 % above that of Procrustes, 0.200",
        ),
        (0.5, 0.15, 0.2, "25 % below that of Procrustes, 0.200"),
        (0.5, 1e-9, 1e-12, "hue: per-augmentation Procrustes explains 100 % .* equal to that of Procrustes"),
        (0.5, 1.0, 0.99, "hue: no rotations: per-augmentation Procrustes explains 1 % of the squared displacement"),
        (0.001, 1.0, 0.5, "the model hardly reacts"),
        (0.5, math.nan, math.nan, "the model hardly reacts"),
    ],
)
def test_the_sentence_says_what_the_numbers_do(displacement, learned, procrustes, words):
    ratio = ratios_of({"learned_rotation": learned, "predictor": 1.0, "procrustes": procrustes})
    found = FamilyResult(PerAugmentation((displacement,)), ratio, {}, {})
    assert re.search(words, found.sentence("hue"))
    assert "loses what is outside" in FamilyResult(
        PerAugmentation((1.0,)), ratios_of({"learned_rotation": 0.5, "predictor": 1.0, "procrustes": 0.4}), {}, {}
    ).sentence("crop")


def test_an_augmentation_that_hardly_moves_does_not_rule_the_ratio(result):
    """Of two augmentations, one moves 100 times as far: the pooled ratio is nearly its own."""
    share = PooledRatio((0.2, 5.0, math.nan), (1.0, 0.01, 0.0))
    assert share.pooled == pytest.approx((0.2 * 1.0 + 5.0 * 0.01) / 1.01)
    assert str(share) == "0.248"
    assert math.isnan(PooledRatio((math.nan,), (0.0,)).pooled)
    assert (str(PooledRatio((math.nan,), (0.0,))), str(PooledRatio((), ()))) == ("invariant", "–")
    record = result.to_json()["families"][ALL]
    values, weights = (
        torch.tensor(v).double() for v in (record["heldout_ratio"]["predictor"], record["heldout_ratio_weights"])
    )
    assert record["heldout_ratio_pooled"]["predictor"] == pytest.approx(float((values * weights).sum() / weights.sum()))


def test_weights_are_squared_displacements(result):
    generator = torch.Generator().manual_seed(0)
    _, unseen = (observer_of(embed, planted_clouds(n, generator)) for n in (300, 120))
    a = MEASURED[0].draw((4,), derive(0, "steered"))
    F = unseen.clean()["out"]
    for i, weight in enumerate(result.families[ALL].heldout_ratio["learned_rotation"].weights):
        assert weight == pytest.approx((unseen.augmented(a[i])["out"] - F).square().sum().item() / 120, rel=1e-4)


def test_the_figure_has_a_row_per_family_that_the_model_reacts_to():
    ratios, pooled = (
        {"learned_rotation": [0.2, 0.3], "procrustes": [0.1, None]},
        {"learned_rotation": 0.29, "procrustes": 0.1},
    )
    none = {"learned_rotation": None}
    families = {"hue": ratios, "blur": {"learned_rotation": [None]}, "crop": ratios}
    figure = steering_figure(families, {"hue": pooled, "blur": none, "crop": pooled}, "mine $x$")
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["hue", "crop"]
    bars = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "|"]
    assert bars == [0.29, 0.1, 0.29, 0.1]
    with pytest.raises(ValueError, match="nothing to draw"):
        steering_figure({"blur": {"learned_rotation": [None]}}, {"blur": none}, "mine")
