from itertools import pairwise

import pytest
import torch
from PIL import Image

from care.augment import simclr
from care.data.readers import read_few
from care.report import gallery, orbit_figure
from care.report.drawing import draw


def test_gallery_has_a_row_per_image_and_a_column_per_augmentation(generator, tmp_path):
    images = torch.randint(256, (3, 3, 40, 40), dtype=torch.uint8, generator=generator)
    p = simclr(size=24).sample(4, (40, 40), generator)
    figure = gallery(images, p)
    assert len(figure.axes) == 3 * 5
    assert figure.axes[0].get_title() == "original"
    assert figure.axes[2].get_title() == "\n".join(p.steps(1))
    draw(figure, tmp_path / "gallery.png", "png")


def test_one_augmentation_hits_all_images_alike(generator):
    """Three times the same image: all rows of the gallery are equal."""
    image = torch.randint(256, (1, 3, 32, 32), dtype=torch.uint8, generator=generator)
    figure = gallery(image.repeat(3, 1, 1, 1), simclr().sample(4, (32, 32), generator))
    shown = [ax.get_images()[0].get_array() for ax in figure.axes]
    for column in range(5):
        assert (shown[column] == shown[column + 5]).all()
        assert (shown[column] == shown[column + 10]).all()
    assert (shown[1] != shown[2]).any()


@pytest.mark.parametrize(("given", "title"), [(60, "16 of 60 pictures, evenly spaced"), (16, ""), (17, "16 of 17")])
def test_of_many_pictures_a_few_are_read_and_shown(given, title, generator, tmp_path):
    for i in range(given):
        Image.new("RGB", (8, 8), (i, i, i)).save(tmp_path / f"{i:02}.png")
    images, counted = read_few([tmp_path], 8)
    shown = images[:, 0, 0, 0].tolist()
    steps = [b - a for a, b in pairwise(shown)]
    assert (len(shown), shown[0], shown[-1], counted) == (16, 0, given - 1, given)
    assert max(steps) - min(steps) <= 1
    assert min(steps) > 0
    figure = gallery(images, simclr().sample(1, (8, 8), generator), counted)
    assert figure.get_suptitle().startswith(title)
    assert bool(figure.get_suptitle()) == bool(title)


def test_a_rotating_embedding_draws_circles():
    """A planted one-parameter rotation: in the plane shown, every orbit keeps its distance from the center."""
    theta = torch.linspace(0, 2 * torch.pi, 37)
    orbits = torch.zeros(2, 37, 5)
    for i, radius in enumerate((0.5, 1.0)):
        orbits[i, :, 1], orbits[i, :, 3], orbits[i, :, 4] = radius * theta.cos(), radius * theta.sin(), 0.7
    figure = orbit_figure({"planted": orbits})
    for line, radius in zip(figure.axes[0].lines, (0.5, 1.0), strict=True):
        x, y = (torch.tensor(v[:-1]) for v in line.get_data())
        center = torch.stack([x.mean(), y.mean()])
        distance = torch.hypot(x - center[0], y - center[1])
        torch.testing.assert_close(distance, torch.full((36,), radius), atol=1e-5, rtol=0)
