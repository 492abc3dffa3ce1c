"""Samples: the first of them, the last of each class, and those that do not fit together."""

import pytest
import torch

from care.data import Samples, open_store
from data.by_hand import CLASSES


def test_limit_takes_the_first_without_copying(store):
    samples = open_store(store)
    assert torch.equal(samples.limit(2).inputs, samples.inputs[:2])
    assert samples.limit(2).inputs.data_ptr() == samples.inputs.data_ptr()
    for n in (0, -1, 7):
        with pytest.raises(ValueError, match=f"pets has 6 samples, {n} cannot be taken"):
            samples.limit(n)


def test_split_takes_the_last_of_each_class():
    labels = torch.tensor([0, 1, -1, 0, 0, 1, 1, -1])
    clouds = torch.arange(8.0)[:, None, None].expand(8, 5, 3)
    samples = Samples(clouds, labels, CLASSES, factors={"size": torch.arange(8.0), "pose": torch.rand(8, 2)})
    train, validation = samples.split(1)
    assert validation.inputs[:, 0, 0].tolist() == validation.factors["size"].tolist() == [4, 6]
    assert train.inputs[:, 0, 0].tolist() == [0, 1, 2, 3, 5, 7]
    assert validation.labels.tolist() == [0, 1]
    assert (train.source, train.classes) == ((5,), CLASSES)
    for per_class in (0, 3):
        with pytest.raises(ValueError, match=f"{per_class} of the 3 samples of class 'cat' cannot be validation"):
            samples.split(per_class)


def test_split_takes_the_last_of_all_where_there_are_no_classes():
    samples = Samples(torch.arange(5.0)[:, None, None].expand(5, 4, 3), torch.full((5,), -1), (), name="clouds")
    train, validation = (part.inputs[:, 0, 0].tolist() for part in samples.split(2))
    assert (train, validation) == ([0, 1, 2], [3, 4])
    for n in (0, 5):
        with pytest.raises(ValueError, match=f"{n} of the 5 samples cannot be validation: choose fewer, or none"):
            samples.split(n)


@pytest.mark.usefixtures("unchecked")
def test_samples_that_do_not_fit_together_are_refused():
    images, labels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"must be uint8 images .* got torch\.float32 \[2, 3, 4, 4\]"):
        Samples(images.float(), labels, CLASSES)
    with pytest.raises(ValueError, match="2 inputs but 1 labels"):
        Samples(images, labels[:1], CLASSES)
    with pytest.raises(ValueError, match="2 inputs but 3 hue"):
        Samples(images, labels, CLASSES, {"hue": torch.zeros(3)})
    with pytest.raises(ValueError, match="there are 0 classes"):
        Samples(images, labels, ())
