import pytest
import torch
from PIL import Image

from care.augment import simclr
from care.report import gallery, orbit_figure, read_pictures


def test_gallery_has_a_row_per_image_and_a_column_per_augmentation(generator, tmp_path):
    images = torch.randint(256, (3, 3, 40, 40), dtype=torch.uint8, generator=generator)
    p = simclr(size=24).sample(4, (40, 40), generator)
    figure = gallery(images, p)
    assert len(figure.axes) == 3 * 5
    assert figure.axes[0].get_title() == "original"
    assert figure.axes[2].get_title() == "\n".join(p.steps(1))
    figure.savefig(tmp_path / "gallery.png")


def test_one_augmentation_hits_all_images_alike(generator):
    """Three times the same image: all rows of the gallery are equal."""
    image = torch.randint(256, (1, 3, 32, 32), dtype=torch.uint8, generator=generator)
    figure = gallery(image.repeat(3, 1, 1, 1), simclr().sample(4, (32, 32), generator))
    shown = [ax.get_images()[0].get_array() for ax in figure.axes]
    for column in range(5):
        assert (shown[column] == shown[column + 5]).all()
        assert (shown[column] == shown[column + 10]).all()
    assert (shown[1] != shown[2]).any()


def test_pictures_are_read_from_files_and_folders(generator, tmp_path):
    for i, shape in enumerate([(30, 50), (64, 20)]):
        noise = torch.randint(256, (*shape, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(noise.numpy()).save(tmp_path / f"{i}.png")
    (tmp_path / "notes.txt").write_text("not a picture")
    assert read_pictures([tmp_path], 16).shape == (2, 3, 16, 16)
    assert read_pictures([tmp_path / "1.png", tmp_path], 16).shape == (3, 3, 16, 16)


def test_bad_pictures_are_named(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read"):
        read_pictures([bad], 16)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no picture"):
        read_pictures([tmp_path / "empty"], 16)


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
