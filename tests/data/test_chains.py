import torch

from care.data import generate_chains


def test_the_same_seed_gives_the_same_chains():
    a, b, c = generate_chains(20, seed=1), generate_chains(20, seed=1), generate_chains(20, seed=2)
    assert torch.equal(a.points, b.points)
    assert not torch.allclose(a.points, c.points)


def test_clouds_are_centered_and_of_unit_radius():
    points = generate_chains(30, seed=1).points
    torch.testing.assert_close(points.mean(1), torch.zeros(30, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(points.square().sum(-1).mean(1), torch.ones(30))


def test_bonds_of_a_chain_have_one_length():
    points = generate_chains(10, seed=1, points=33).points
    bonds = (points[:, 1:] - points[:, :-1]).norm(dim=-1)
    torch.testing.assert_close(bonds, bonds[:, :1].expand_as(bonds), atol=1e-5, rtol=1e-4)


def test_classes_can_be_told_apart_by_shape_alone():
    """Distances between points do not change under rotation; by them, the nearest neighbor has the right class."""
    chains = generate_chains(200, seed=1)
    shapes = torch.cdist(chains.points, chains.points).flatten(1)
    distance = torch.cdist(shapes, shapes).fill_diagonal_(torch.inf)
    accuracy = (chains.labels[distance.argmin(1)] == chains.labels).float().mean()
    assert accuracy > 0.95
    assert chains.labels.bincount().tolist() == [20] * 10


def test_orientations_are_random():
    """The direction from the first to the last point of one class points anywhere."""
    chains = generate_chains(2000, seed=1)
    ends = torch.nn.functional.normalize(chains.points[:, -1] - chains.points[:, 0], dim=1)
    for label in range(3):
        assert ends[chains.labels == label].mean(0).norm() < 0.25
