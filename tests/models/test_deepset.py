import torch

from care.models import DeepSet


def test_the_order_of_the_points_does_not_matter(generator):
    encoder = DeepSet(out_features=5).eval()
    clouds = torch.randn(4, 20, 3, generator=generator)
    shuffled = clouds[:, torch.randperm(20, generator=generator)]
    assert encoder(clouds).shape == (4, 5)
    torch.testing.assert_close(encoder(shuffled), encoder(clouds))
