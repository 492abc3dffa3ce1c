"""One query and many: a picture is searched alike as a file and as one of the images."""

import dataclasses

import pytest
import torch

from care.data import Samples
from care.evaluate.retrieval.hue import Hues
from care.steer import Query, retrieve
from care.steer.query import find_image
from care.steer.retrieving import WAYS, Database
from steer.planted import color_embedder, colored, hue_rotation

NUMBER = 7


@pytest.fixture
def images(generator):
    return color_embedder(colored(torch.rand(60, generator=generator)))


def retrieved(images, query):
    rotation = dataclasses.replace(hue_rotation(), output="out")
    return retrieve(images, query, rotation, {"hue": 0.2}, title="mine", k=3, queries=20)


def test_a_picture_that_is_one_of_the_images_is_searched_as_that_image(images):
    alone = images.take(torch.tensor([NUMBER]))
    by_number, by_picture = (retrieved(images, Query("seven", alone, number)) for number in (NUMBER, None))
    for way in WAYS:
        assert torch.equal(by_number.one.neighbors[way], by_picture.one.neighbors[way])
        assert NUMBER not in by_picture.one.neighbors[way]


def test_a_picture_from_elsewhere_finds_only_images(images):
    """Another color of the image: its neighbors by f are those of this color, found by hand."""
    samples = images.samples.take(torch.tensor([NUMBER]))
    inverted = dataclasses.replace(samples, stored=255 - samples.inputs, labels=torch.tensor([-1]))
    query = dataclasses.replace(images, samples=inverted)
    found = retrieved(images, Query("inverted", query))
    z, F = (embedder.points(embedder.clean())["out"] for embedder in (query, images))
    assert found.one.neighbors["identity"][0].tolist() == (F @ z[0]).argsort(descending=True)[:3].tolist()
    assert (found.query, found.images, found.queries) == ("inverted", 60, 20)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("part", "number"), [(slice(None), 2), (slice(5, 25), None)])
def test_a_square_view_of_a_wide_image_is_not_that_image(part, number, generator):
    wide = torch.randint(256, (4, 3, 20, 30), dtype=torch.uint8, generator=generator)
    samples = (Samples(x, torch.full((len(x),), -1), ()) for x in (wide, wide[2:3, :, :, part]))
    images, query = (color_embedder(some) for some in samples)
    hues, labels = Hues(torch.zeros(4), torch.zeros(4)), torch.full((4,), -1)
    database, asked = (Database(torch.eye(4)[rows], hues, labels) for rows in (slice(None), slice(2, 3)))
    assert find_image(images, database, query, asked) == number
