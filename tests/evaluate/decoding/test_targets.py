import dataclasses
import math

import numpy as np
import pytest
import torch

from care.augment import ImagePolicy, PointPolicy, hue_only, policy_named
from care.augment.points import augment_points
from care.data import Samples, generate_shapes
from care.data.shapes import NUISANCE_FACTORS, render
from care.data.silhouettes import SILHOUETTES
from care.evaluate.decoding.targets import factor_targets, parameter_targets


def shapes_samples(n):
    shapes = generate_shapes(n, seed=1, size=8)
    return Samples(shapes.images, shapes.labels, shapes.classes, shapes.factors)


def test_image_targets_are_what_the_rows_say(generator):
    p = ImagePolicy(size=8, solarize=0.5, brightness=1.0).sample(200, (20, 30), generator)
    targets = {name: values[:, 0].tolist() for name, (values, _) in parameter_targets(p).items()}
    for i in range(200):
        top, left, height, width = (int(field[i]) for field in (p.top, p.left, p.height, p.width))
        rows, columns = np.mgrid[top : top + height, left : left + width]
        expected = {
            "crop x": (columns.mean() + 0.5) / 30,
            "crop y": (rows.mean() + 0.5) / 20,
            "crop area": math.log(rows.size / 600),
            "crop aspect": math.log(width / height),
            "flip": float(p.flip[i]),
            "brightness": math.log(max(p.brightness[i], 0.01)),
            "contrast": math.log(p.contrast[i]),
            "saturation": math.log(p.saturation[i]),
            "hue": float(p.hue[i]),
            "gray": float(p.gray[i]),
            "blur": float(p.sigma[i]) if p.blur[i] else 0.0,
            "solarize": float(p.solarize[i]),
        }
        assert {name: column[i] for name, column in targets.items()} == pytest.approx(expected, abs=1e-6)


def test_shifts_of_hue_that_go_round_are_angles(generator):
    """−½ and ½ are one shift; shifts of a tenth are numbers."""
    p = hue_only().sample(200, (8, 8), generator)
    angle = 2 * math.pi * p.hue
    torch.testing.assert_close(parameter_targets(p)["hue"].values, torch.stack([angle.cos(), angle.sin()], 1))
    little = policy_named("cifar10").sample(200, (8, 8), generator)
    torch.testing.assert_close(parameter_targets(little)["hue"].values, little.hue[:, None])


def test_targets_are_finite_at_factor_zero(generator):
    p = ImagePolicy(size=8).sample(4, (8, 8), generator)
    black = dataclasses.replace(p, brightness=torch.tensor([0.0, 0.5, 1.0, 1.5]))
    assert parameter_targets(black)["brightness"].values[:, 0].tolist() == pytest.approx(
        np.log([0.01, 0.5, 1, 1.5]).tolist()
    )


def test_what_does_not_vary_is_left_out(generator):
    policy = ImagePolicy(size=8).only("color", "flip")
    assert set(parameter_targets(policy.sample(50, (8, 12), generator))) == {
        "flip", "brightness", "contrast", "saturation", "hue"
    }  # fmt: skip
    assert parameter_targets(policy.unchanged(50, (8, 8))) == {}
    assert "scale" not in parameter_targets(PointPolicy().sample(20, (4,), generator))


def test_point_targets_are_the_rotation_and_the_scale(generator):
    p = PointPolicy(scale=(0.5, 2.0), jitter=0.1).sample(30, (5,), generator)
    targets = parameter_targets(p)
    assert set(targets) == {f"rotation {i} {j}" for i in range(3) for j in range(3)} | {"scale"}
    R = torch.cat([targets[f"rotation {i} {j}"].values for i in range(3) for j in range(3)], dim=1).view(-1, 3, 3)
    corners = torch.eye(3).expand(30, 3, 3)
    moved = augment_points(corners, dataclasses.replace(p, jitter=torch.zeros(30, 3, 3)))
    torch.testing.assert_close(targets["scale"].values.exp()[:, :, None] * R, moved.mT)


def test_other_augmentations_are_refused(unchecked):
    with pytest.raises(ValueError, match="not str"):
        parameter_targets("crop")


def test_shapes_show_their_targets():
    """Pictures whose targets agree look alike, whatever the numbers behind them: the symmetry, a full hue circle."""
    labels = torch.arange(10).repeat_interleave(2)
    values = {name: torch.full((20,), (low + high) / 2) for name, (low, high) in NUISANCE_FACTORS.items()}
    values |= {
        "x": torch.full((20,), 0.1),
        "y": torch.zeros(20),
        "scale": torch.full((20,), 0.7),
        "hue": torch.ones(20),
    }
    values["contrast"], values["ground value"] = (
        torch.zeros(20),
        torch.zeros(20),
    )  # a pattern would rotate with the shape
    period = torch.tensor([1 / max(shape.symmetry, 1) for shape in SILHOUETTES.values()])
    values["angle"] = torch.stack([torch.full((10,), 0.07), 0.07 + period], dim=1).flatten()
    values["hue"][1::2] = 0
    pictures = render(labels, values, size=32)
    assert (pictures[0::2] - pictures[1::2]).abs().max() < 1e-4
    factors = {name: values[name] for name in ("hue", "x", "y", "scale", "angle")}
    samples = Samples((255 * pictures).to(torch.uint8), labels, tuple(SILHOUETTES), factors)
    targets = factor_targets(samples)
    assert list(targets) == list(factors)
    for name, (target, known) in targets.items():
        torch.testing.assert_close(target[0::2], target[1::2], atol=1e-5, rtol=0)
        assert target.shape == (20, 2 if name in ("hue", "angle") else 1)
        assert known.tolist() == [name != "angle" or SILHOUETTES[samples.classes[k]].symmetry > 0 for k in labels]
    # A third of the way to looking the same again, it does not, and the target says so.
    values["angle"][1::2] = 0.07 + period / 3
    different = (render(labels, values, size=32)[1::2] - pictures[1::2]).abs().amax((1, 2, 3)) > 0.1
    moved = factor_targets(dataclasses.replace(samples, factors=factors | {"angle": values["angle"]}))["angle"]
    assert different.tolist() == moved.known[1::2].tolist()
    change = (moved.values[1::2] - targets["angle"].values[1::2]).norm(dim=1)[different]
    torch.testing.assert_close(change, torch.full_like(change, math.sqrt(3)))


def test_the_numbers_of_other_samples_stay_as_they_are(generator):
    clouds = torch.randn(6, 5, 3, generator=generator)
    factors = {"hue": torch.rand(6, generator=generator), "pose": torch.randn(6, 3, 3, generator=generator)}
    targets = factor_targets(Samples(clouds, torch.zeros(6, dtype=torch.int64), ("one",), factors))
    torch.testing.assert_close(targets["hue"].values[:, 0], factors["hue"])
    torch.testing.assert_close(targets["pose"].values, factors["pose"].flatten(1))
    assert all(target.known.all() for target in targets.values())
    assert factor_targets(dataclasses.replace(shapes_samples(20), factors={})) == {}


def test_samples_without_a_class_have_no_angle():
    shapes = shapes_samples(20)
    assert not factor_targets(dataclasses.replace(shapes, labels=shapes.labels * 0 - 1))["angle"].known.any()
