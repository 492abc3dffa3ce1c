"""SIE and steerable representations: their formulas, and planted maps that leave no loss and are found."""

import pytest
import torch

from care.augment import simclr
from care.losses import mapped
from care.methods.scaled_parameters import drawn_coordinates
from losses import literal
from methods.peers import CLOUDS, peer_of, planted
from objective.small import BATCH, build, drawn, noise, small


def std_of(policy):
    std = drawn_coordinates(policy).std(0).double()
    return torch.where(std > 0, std, 1.0)


def embeddings(objective, views):
    import copy

    return [copy.deepcopy(objective.encoder)(view.inputs) for view in views]


def with_maps(objective, generator):
    """B_k that are not 0, as they are at the start."""
    maps = objective.equivariance.maps
    maps.data = 0.1 * torch.randn(maps.shape, generator=generator, dtype=maps.dtype)
    return maps.detach()


def test_sie_is_its_formula(generator):
    weights = {"sie_weight": 2.0, "spread_weight": 3.0, "decorrelation_weight": 0.5}
    objective = build(equivariance="sie", **weights)
    views, maps = drawn(objective, noise()), with_maps(objective, generator)
    z1, z2 = embeddings(objective, views)
    omega = (views[1].theta - views[0].theta).double() / std_of(simclr())
    predicted = literal.mapped(z1[:, 5:], omega, maps)
    terms = objective(views)
    error = literal.mean(((predicted - z2[:, 5:]) ** 2).flatten().tolist())
    assert terms["sie"].value.item() == pytest.approx(error, rel=1e-5)
    hinges = sum(literal.vicreg(z, z, 0, 1, 0) for z in (z1, z2, predicted))
    assert terms["spread"].value.item() == pytest.approx(hinges / 2, rel=1e-5)
    assert terms["decorrelation"].value.item() == pytest.approx(literal.vicreg(z1, z2, 0, 0, 1), rel=1e-5)
    assert [term.weight for term in terms.values()] == [1.0, 2.0, 3.0, 0.5]


def test_sie_with_the_distance_of_vicreg_is_the_papers():
    """10 · invariance of c, and all else over the whole embedding."""
    vicreg = {"method": "vicreg", "invariance_weight": 10.0, "variance_weight": 0.0, "covariance_weight": 0.0}
    objective = build(equivariance="sie", **vicreg)
    views = drawn(objective, noise())
    z1, z2 = embeddings(objective, views)
    assert objective(views)["vicreg"].value.item() == pytest.approx(literal.vicreg(z1[:, :5], z2[:, :5], 10, 0, 0))


@pytest.mark.parametrize("chosen", [{}, CLOUDS], ids=["images", "clouds"])
def test_an_equivariant_part_that_the_maps_carry_along_has_no_loss(chosen, generator):
    """Wide, uncorrelated embeddings of ±2 in 8 coordinates: nothing is predicted wrong, nor is anything collapsed."""
    peer = peer_of(equivariance="sie", equivariant_dim=2, **chosen)
    maps = torch.randn(peer.maps.shape, generator=generator)
    peer.maps.data = maps
    signs = torch.tensor([[1.0, 1], [1, -1]])
    hadamard = 2 * torch.kron(torch.kron(signs, signs), signs)
    c, r1 = hadamard[:, 1:6], hadamard[:, 6:]
    theta = torch.randn(2, BATCH, len(peer.standardized.names), generator=generator)
    omega = peer.standardized.between(*theta)
    r2 = mapped(r1, omega, maps)
    views = [planted(t, embedding=torch.cat([c, r], 1)) for t, r in zip(theta, (r1, r2), strict=True)]
    assert peer.terms(*views)["sie"].value.item() == pytest.approx(0, abs=1e-9)
    still = [planted(theta[0], embedding=views[0].z)] * 2
    assert [term.value.item() for term in peer.terms(*still).values()] == pytest.approx([0, 0, 0], abs=1e-9)
    wrong = [planted(theta[1], embedding=views[0].z), views[1]]
    assert peer.terms(*wrong)["sie"].value.item() > 0.1


def test_steerable_is_its_formula(generator):
    objective = build(equivariance="steerable", steerable_weight=2.0, uniformity_weight=0.3)
    views, maps = drawn(objective, noise()), with_maps(objective, generator)
    z1, z2, z0 = embeddings(objective, views)
    omega = [view.theta.double() / std_of(simclr()) for view in views[:2]]
    expected = literal.mean(
        literal.linear_map(literal.mapped(z0, w, maps), z) for w, z in zip(omega, (z1, z2), strict=True)
    )
    terms = objective(views)
    assert terms["steerable"].value.item() == pytest.approx(expected, rel=1e-5)
    unif = literal.uniformity(z1, z2, "wang-isola", 0.5)
    assert terms["steerable_uniformity"].value.item() == pytest.approx(unif, rel=1e-6)
    assert (terms["steerable"].weight, terms["steerable_uniformity"].weight) == (2.0, 0.3)


@pytest.mark.parametrize("chosen", [{}, CLOUDS], ids=["images", "clouds"])
def test_planted_maps_are_found_and_kept(chosen, generator):
    """Embeddings that M(θ) carries along: from zeros, gradient descent on the loss alone finds B_k."""
    peer = peer_of(equivariance="steerable", embedding_dim=3, **chosen)
    truth = 0.05 * torch.randn(peer.maps.shape, generator=generator)
    z, theta = torch.randn(256, 3, generator=generator), torch.randn(2, 256, len(truth), generator=generator)
    views = [planted(t, embedding=mapped(z, peer.standardized(t), truth)) for t in theta]
    views.append(planted(torch.zeros_like(theta[0]), embedding=z))
    peer.maps.data = truth.clone()
    assert peer.terms(*views)["steerable"].value.item() == pytest.approx(0, abs=1e-9)
    peer.maps.data.zero_()
    optimizer = torch.optim.LBFGS(peer.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = peer.terms(*views)["steerable"].value
        loss.backward()
        return loss

    before = closure().item()
    optimizer.step(closure)
    assert closure().item() < 1e-4 * before
    kept = peer.exported()
    assert torch.equal(kept["maps"], peer.maps)
    assert torch.equal(kept["std"], peer.standardized.std)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"method": "none"}, "a split embedding needs a method"),
        ({"equivariant_dim": 7}, "equivariant_dim must be at most 6 for an embedding_dim of 8, got 7"),
        ({"sie_weight": 0.0}, "sie_weight must be greater than 0"),
    ],
    ids=str,
)
def test_sie_without_an_invariant_part_is_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        small(equivariance="sie", **chosen)
