import itertools
import json
import math

import pytest
import torch
from scipy.stats import ortho_group

from care.evaluate.effects import prediction as module
from care.evaluate.effects.prediction import (
    chance,
    predict_by_identity,
    prediction_measures,
)
from care.geometry import crossfit_predictions, crossfit_rotations
from care.geometry.crossfit import halves


def sphere(*shape, generator):
    return torch.nn.functional.normalize(torch.randn(*shape, generator=generator, dtype=torch.float64), dim=-1)


def predict_by_rotation(F, F_a, group="SO"):
    """R_v f(x_i) with R_v fitted to F → F_a[v] on other images."""
    return crossfit_predictions(F, crossfit_rotations(F, F_a, group))


def equivariant(V, n, d, generator):
    """Embeddings on which each augmentation acts as one rotation."""
    R = torch.from_numpy(ortho_group(d, seed=0).rvs(V))
    R[:, 0] *= torch.linalg.det(R).sign()[:, None]
    F = sphere(n, d, generator=generator)
    return F, F @ R.mT


def literal(predictions, F, F_a, parameters):
    """Every measure by the letter: all orders of tied views are tried, and every embedding is compared."""
    V, n, _ = F_a.shape
    cosine = torch.nn.functional.cosine_similarity
    deviation = parameters.std(0, correction=0)
    sums = dict.fromkeys(("mrr", "hit_at_1", "hit_at_5", "parameter_error", "gain"), 0.0)
    for v, i in itertools.product(range(V), range(n)):
        scores = [round(float(cosine(predictions[v, i], F_a[u, i], dim=0)), 9) for u in range(V)]
        orders = [
            order for order in itertools.permutations(range(V)) if sorted(scores)[::-1] == [scores[u] for u in order]
        ]
        ranks = [1 + order.index(v) for order in orders]
        sums["mrr"] += sum(1 / rank for rank in ranks) / len(ranks)
        sums["hit_at_1"] += sum(rank <= 1 for rank in ranks) / len(ranks)
        sums["hit_at_5"] += sum(rank <= 5 for rank in ranks) / len(ranks)
        everywhere = {
            (u, j): round(float(cosine(predictions[v, i], F_a[u, j], dim=0)), 9)
            for u, j in itertools.product(range(V), range(n))
        }
        found = [u for (u, _), score in everywhere.items() if score == max(everywhere.values())]
        errors = [float(((parameters[u] - parameters[v]).abs() / deviation).mean()) for u in found]
        sums["parameter_error"] += sum(errors) / len(errors)
        sums["gain"] += float(cosine(F_a[v, i], predictions[v, i], dim=0) - cosine(F_a[v, i], F[i], dim=0))
    return {name: total / (V * n) for name, total in sums.items()}


@pytest.mark.parametrize("block", [1, 60, 2**23])
def test_measures_agree_with_the_literal_loop(block, generator, monkeypatch):
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", block)
    F, F_a = 3 * sphere(4, 3, generator=generator), 2 * sphere(6, 4, 3, generator=generator)
    F_a[2], F_a[4, :2] = F_a[1], F_a[1, :2]  # ties of two and of three views
    predictions = F_a + 0.8 * sphere(6, 4, 3, generator=generator)
    parameters = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    measures = prediction_measures(predictions, F, F_a, parameters)
    assert measures.to_json() == pytest.approx(literal(predictions, F, F_a, parameters), abs=1e-9)
    for name, values in measures.per_augmentation.items():
        assert values.mean() == pytest.approx(getattr(measures, name))
        one = prediction_measures(predictions.roll(1, 0), F, F_a.roll(1, 0), parameters.roll(1, 0))
        torch.testing.assert_close(one.per_augmentation[name], values.roll(1))
    assert json.loads(json.dumps(measures.to_json(), allow_nan=False)) == measures.to_json()


def test_an_equivariant_encoder_is_predicted_exactly(generator):
    F, F_a = equivariant(V=7, n=60, d=8, generator=generator)
    F, F_a = F.float(), F_a.float()
    parameters = torch.randn(7, 3, generator=generator)
    steered = prediction_measures(predict_by_rotation(F, F_a), F, F_a, parameters)
    assert [steered.mrr, steered.hit_at_1, steered.hit_at_5] == pytest.approx([1, 1, 1])
    assert steered.parameter_error == 0
    distance = 1 - torch.nn.functional.cosine_similarity(F_a, F.expand_as(F_a), dim=-1).mean()
    assert steered.gain == pytest.approx(float(distance), abs=1e-6)
    identity = prediction_measures(predict_by_identity(F, 7), F, F_a, parameters)
    assert identity.gain == 0
    assert identity.mrr < 0.6


def test_small_displacements_are_not_ties(generator):
    """Views a ten-thousandth apart in float32: cosines differ by 1e-8, below the resolution of float32."""
    F = sphere(200, 4, generator=generator)
    A = torch.randn(5, 4, 4, generator=generator, dtype=torch.float64)
    F_a = (F @ torch.linalg.matrix_exp(1e-4 * (A - A.mT)).mT).float()
    assert prediction_measures(predict_by_rotation(F.float(), F_a), F.float(), F_a).mrr > 0.95


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_invariant_encoder_is_at_chance(dtype, generator):
    F = sphere(50, 33, generator=generator).to(dtype)
    F_a = F * torch.arange(1, 10)[:, None, None]  # lengths do not count, and rounding must not either
    parameters = torch.randn(9, 2, generator=generator)
    for predictions in (predict_by_rotation(F, F_a), predict_by_identity(F, 9)):
        measures, expected = prediction_measures(predictions, F, F_a, parameters), chance(9, parameters)
        assert measures.gain == pytest.approx(0, abs=1e-6)
        assert measures.to_json() | {"gain": None} == pytest.approx(expected.to_json())


def test_random_displacements_are_at_chance(generator):
    V, n = 6, 1500
    F = sphere(n, 5, generator=generator)
    F_a = F + 0.5 * torch.randn(V, n, 5, generator=generator, dtype=torch.float64)
    parameters = torch.randn(V, 2, generator=generator)
    found, expected = prediction_measures(predict_by_rotation(F, F_a), F, F_a, parameters), chance(V, parameters)
    for name in ("mrr", "hit_at_1", "hit_at_5"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=4 * 0.5 / math.sqrt(V * n))
    assert found.parameter_error == pytest.approx(expected.parameter_error, abs=4 / math.sqrt(V * n))


@pytest.mark.parametrize("V", [2, 4, 5, 12])
def test_chance_is_what_shuffling_gives(V, generator):
    parameters = torch.randn(V, 3, generator=generator, dtype=torch.float64)
    expected = chance(V, parameters)
    ranks = range(1, V + 1)
    assert expected.mrr == pytest.approx(sum(1 / rank for rank in ranks) / V)
    assert expected.hit_at_1 == pytest.approx(1 / V)
    assert expected.hit_at_5 == pytest.approx(min(5, V) / V)
    theta = (parameters / parameters.std(0, correction=0)).tolist()
    pairs = [sum(abs(s - t) for s, t in zip(a, b, strict=True)) / 3 for a in theta for b in theta]
    assert expected.parameter_error == pytest.approx(sum(pairs) / len(pairs))
    assert expected.gain is None
    assert chance(V).parameter_error is None


@pytest.mark.parametrize("group", ["SO", "O"])
def test_rotations_are_fitted_on_other_images(group, generator):
    F, F_a = sphere(21, 4, generator=generator), sphere(3, 21, 4, generator=generator)
    predictions = predict_by_rotation(F, F_a, group)
    for rows, R in zip(reversed(halves(F)), crossfit_rotations(F, F_a, group).unbind(1), strict=True):
        torch.testing.assert_close(predictions[:, rows], F[rows] @ R.mT)
    changed = F_a.clone()
    changed[:, 5] = -F_a[:, 5]
    assert torch.equal(predict_by_rotation(F, changed, group)[:, 5], predictions[:, 5])
    assert not torch.equal(predict_by_rotation(F, changed, group), predictions)


def test_parameters_that_do_not_vary_do_not_count(generator):
    F, F_a = sphere(5, 3, generator=generator), sphere(4, 5, 3, generator=generator)
    parameters = torch.randn(4, 2, generator=generator)
    padded = torch.cat([parameters, torch.full((4, 1), 0.1)], dim=1)
    with_, without = (prediction_measures(F_a.flip(0), F, F_a, p) for p in (padded, parameters))
    assert with_.parameter_error == pytest.approx(without.parameter_error)
    assert without.parameter_error > 0
    assert prediction_measures(F_a, F, F_a, padded[:, 2:]).parameter_error is None


def test_mistakes_in_predictions_are_explained(generator):
    F, F_a = sphere(5, 3, generator=generator), sphere(4, 5, 3, generator=generator)
    with pytest.raises(ValueError, match="n ≥ 2"):
        predict_by_rotation(F[:1], F_a[:, :1])
    with pytest.raises(ValueError, match="at least 2 augmentations, got 1"):
        prediction_measures(F_a[:1], F, F_a[:1])
    with pytest.raises(ValueError, match="must be finite"):
        prediction_measures(F_a * math.nan, F, F_a)
