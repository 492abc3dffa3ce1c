"""The whole of an embedding whose parts have spheres of their own."""

import pytest
import torch

from care.geometry import wahba_error
from care.pretrained import only, steerable, whole


def test_both_parts_count_alike_however_long_they_are(generator):
    c, r = torch.randn(5, 7, generator=generator), 100 * torch.randn(5, 3, generator=generator)
    Z = whole(c, r)
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(5))
    between = torch.nn.functional.cosine_similarity
    cosines = [between(x[:1], x) for x in (c, r)]
    torch.testing.assert_close(Z @ Z[0], (cosines[0] + cosines[1]) / 2)


def test_what_turns_one_part_is_a_rotation_of_the_whole(generator):
    c, r = torch.randn(40, 6, generator=generator), torch.randn(40, 3, generator=generator)
    Q = torch.linalg.qr(torch.randn(3, 3, generator=generator)).Q
    before, after = whole(c, r), whole(2 * c, r @ (Q * Q.det()).mT)
    assert wahba_error(before, after) < 1e-4
    assert (after - before).norm(dim=1).mean() > 0.5


def test_the_whole_is_taken_unless_something_else_is_asked_for():
    outputs = {"head": torch.eye(2), "contrast": 3 * torch.eye(2), "backbone": torch.ones(2, 4)}
    assert steerable(outputs) == ("whole", "head", "contrast", "backbone")
    assert steerable(["head", "backbone"]) == ("head", "backbone")
    assert steerable(["features"]) == ("features",)
    ((name, Z),) = only(lambda x: outputs, "whole")(torch.zeros(2)).items()
    assert name == "whole"
    torch.testing.assert_close(Z, torch.eye(2).repeat(1, 2) / 2**0.5)
    assert only(lambda x: outputs, "backbone")(torch.zeros(2)) == {"backbone": outputs["backbone"]}
    with pytest.raises(KeyError):
        only(lambda x: outputs, "features")(torch.zeros(2))
