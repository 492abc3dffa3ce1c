"""The embedding in a few of its directions, as a control of that dimension."""

import pytest
import torch

from care.evaluate import EvaluationSettings, evaluate_model
from care.evaluate.effects.projections import projected_output, with_projections
from evaluate.planted import COLORS, pixels, setup, shapes


@pytest.fixture(scope="module")
def planted():
    return setup(pixels, test=shapes(60, 1)).embedder(shapes(60, 1))


def test_directions_are_those_of_a_singular_value_decomposition_and_random_ones(planted):
    clean = planted.clean()
    embedder, known = with_projections(planted, clean, (4,), seed=0)
    F = torch.nn.functional.normalize(clean["embedding"].double(), dim=1)
    kept = known[projected_output("principal", 4)].square().sum(), torch.linalg.svdvals(F)[:4].square().sum()
    assert kept[0].item() == pytest.approx(kept[1].item(), rel=1e-4)
    assert known[projected_output("random", 4)].square().sum() < kept[0]
    again = embedder.clean()
    assert set(again) == {"embedding", "backbone", "embedding-principal-4", "embedding-random-4"}
    for name in again:
        torch.testing.assert_close(again[name], known[name])


def test_too_many_directions_or_no_embedding_add_no_projection(planted):
    clean = planted.clean()
    d = clean["embedding"].shape[1]
    assert with_projections(planted, clean, (d, d + 1), seed=0)[1].keys() == clean.keys()
    features = {"features": clean["embedding"]}
    assert with_projections(planted, features, (4,), seed=0) == (planted, features)


def test_they_are_measured_beside_the_embedding_and_change_nothing_else():
    quick = {"augmentations": 2, "probe": "none", "logistic": False, "images": 60}
    planted = setup(pixels, policy=COLORS)
    plain, both = (evaluate_model(planted, EvaluationSettings(**quick, projections=k)) for k in ((), (3,)))
    assert both.outputs == [*plain.outputs, "embedding-principal-3", "embedding-random-3"]
    assert both.measurement("embedding-random-3").dimension == 3
    assert both.measurement("embedding") == plain.measurement("embedding")
    assert both.equivariant_output == plain.equivariant_output
    assert list(both.record["decoding"]) == list(plain.record["decoding"])
    with pytest.raises(ValueError, match="at least 1 direction"):
        EvaluationSettings(projections=(0,))
