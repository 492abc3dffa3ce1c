"""What is measured after an epoch, for every form: cosines are cosines, and a collapse is seen."""

import dataclasses

import pytest
import torch

from care import geometry
from care.augment import PointPolicy
from care.data import load
from care.geometry import Euclidean, Minkowski, Symplectic
from care.models import Encoder
from care.objective import build_encoder
from care.objective.registry import REGISTERED
from care.train import default_config
from care.train.monitor import Monitor


@pytest.mark.parametrize("form", [Euclidean(), Minkowski(), Symplectic()], ids=lambda form: form.name)
def test_measures_of_an_untrained_encoder(form):
    samples = load("chains", "test").limit(60)
    torch.manual_seed(0)
    encoder = build_encoder(default_config("chains", embedding_dim=8, head_width=16), samples.input_shape).eval()
    found = Monitor(samples, samples, PointPolicy(), form, seed=0).measure(encoder, torch.device("cpu"))
    F = form.embed(encoder(samples.inputs).detach()).double()
    cosines = torch.nn.functional.cosine_similarity(F[:, None], F[None], dim=-1)
    assert found["negative_cosine"] == pytest.approx(cosines[~torch.eye(60, dtype=torch.bool)].mean().item(), abs=1e-5)
    assert -1 <= found["positive_cosine"] <= 1 + 1e-6
    assert 0 < found["heldout_ratio"] < 2
    assert found["rankme"] == pytest.approx(geometry.rankme(encoder(samples.inputs).detach()).item(), rel=1e-4)
    features = encoder.features(samples.inputs).detach()
    assert found["backbone_rankme"] == pytest.approx(geometry.rankme(features).item(), rel=1e-4)
    sphere = Euclidean().embed(F)
    potential = torch.pdist(sphere).square().mul(-2).exp().mean().log().item()
    assert found["gaussian_uniformity"] == pytest.approx(potential, abs=1e-4)
    eigenvalues = torch.linalg.eigvalsh(torch.cov(F.mT)).clamp_min(1e-30)
    p = eigenvalues / eigenvalues.sum()
    assert found["effective_rank"] == pytest.approx((-(p * p.log()).sum()).exp().item(), rel=1e-3)
    assert 0 < found["alignment"] < 4
    assert ("strength" in found) == (form.name == "symplectic")
    if form.name == "symplectic":
        areas = sum((x @ x) * (y @ y) - (x @ y) ** 2 for x in F for y in F)
        assert found["strength"] == pytest.approx((7 * form.gram(F).square().sum() / areas).item(), rel=1e-4)


@pytest.mark.parametrize("classes", [1, 2])
def test_of_one_class_neighbors_say_nothing(classes):
    samples = load("chains", "test").limit(60)
    samples = dataclasses.replace(samples, labels=torch.arange(60) % classes)
    encoder = Encoder(Ends(), torch.nn.Identity(), (0.0,) * 3, (1.0,) * 3)
    found = Monitor(samples, samples, PointPolicy(), Euclidean(), seed=0).measure(encoder, torch.device("cpu"))
    assert (found["knn"] is None) == (classes == 1)


class Ends(torch.nn.Module):
    """Three coordinates that do not turn with a cloud, and three that do: from its first point to its last."""

    def forward(self, clouds):
        return torch.cat([torch.ones(len(clouds), 3), clouds[:, -1] - clouds[:, 0]], dim=1)


def test_what_is_turned_is_looked_at_alone():
    samples, encoder = load("chains", "test").limit(60), Encoder(Ends(), torch.nn.Identity(), (0.0,) * 3, (1.0,) * 3)
    monitors = [Monitor(samples, samples, PointPolicy(), Euclidean(), seed=0, equivariant_dim=t) for t in (0, 3)]
    whole, turned = (monitor.measure(encoder, torch.device("cpu")) for monitor in monitors)
    assert turned["heldout_ratio"] == pytest.approx(0, abs=1e-6)
    assert turned["displacement"] > 1.1 * whole["displacement"]
    assert turned["alignment"] > 1.1 * whole["alignment"]
    assert turned["rankme"] == whole["rankme"]  # the ranks are those of all that there is


def test_no_measure_has_the_name_of_a_term_of_a_loss():
    """In a record they stand beside each other: one would hide the other."""
    samples = load("chains", "test").limit(30)
    encoder = Encoder(Ends(), torch.nn.Identity(), (0.0,) * 3, (1.0,) * 3)
    found = Monitor(samples, samples, PointPolicy(), Euclidean(), seed=0).measure(encoder, torch.device("cpu"))
    terms = {
        "loss",
        "info_nce",
        "slice",
        "orbit",
        *REGISTERED,
        *(name for kind in REGISTERED.values() for name in kind),
    }
    assert not terms & set(found)
