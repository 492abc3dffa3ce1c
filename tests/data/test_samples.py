"""Samples: the first of them, the last of each class, and those that do not fit together."""

import pytest
import torch

import care.data.samples
from care.data import Samples, open_store, place
from care.data.heldout import default_validation
from care.data.samples import _copied, shortage
from data.by_hand import CLASSES


def test_limit_takes_the_first_without_copying(store):
    samples = open_store(store)
    assert torch.equal(samples.limit(2).inputs, samples.inputs[:2])
    assert samples.limit(2).inputs.data_ptr() == samples.inputs.data_ptr()
    for n in (0, -1, 7):
        with pytest.raises(ValueError, match=f"pets has only 6 samples: {n} cannot be taken"):
            samples.limit(n)


def test_split_takes_the_last_of_each_class():
    labels = torch.tensor([0, 1, -1, 0, 0, 1, 1, -1])
    clouds = torch.arange(8.0)[:, None, None].expand(8, 5, 3)
    samples = Samples(clouds, labels, CLASSES, factors={"size": torch.arange(8.0), "pose": torch.rand(8, 2)})
    train, validation = samples.split(1)
    assert validation.inputs[:, 0, 0].tolist() == validation.factors["size"].tolist() == [4, 6]
    assert train.inputs[:, 0, 0].tolist() == [0, 1, 2, 3, 5, 7]
    assert validation.labels.tolist() == [0, 1]
    assert (train.input_shape, train.classes) == ((5,), CLASSES)
    for per_class in (0, -1):
        with pytest.raises(ValueError, match=f"samples has too few samples to hold out {per_class} per class"):
            samples.split(per_class)


def test_split_takes_the_last_of_all_where_there_are_no_classes():
    samples = Samples(torch.arange(5.0)[:, None, None].expand(5, 4, 3), torch.full((5,), -1), (), name="clouds")
    train, validation = (part.inputs[:, 0, 0].tolist() for part in samples.split(2))
    assert (train, validation) == ([0, 1, 2], [3, 4])
    assert shortage(samples.split(2)[1], 2) is None
    assert len(samples.split(5)[1]) == 2
    assert shortage(samples.split(5)[1], 5) == "half of the samples are held out for validation, 2 instead of 5"
    with pytest.raises(ValueError, match="clouds has too few samples to hold out 0 per class for validation"):
        samples.split(0)


def test_small_classes_give_half_of_their_samples():
    """Classes of 1, 5 and 20 samples, in a random order; twelve without a class."""
    labels = torch.tensor([0] + [1] * 5 + [2] * 20 + [-1] * 12)
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    samples = Samples(torch.zeros(len(labels), 4, 3), labels, ("one", "few", "many"))
    train, validation = samples.split_indices(4)
    assert [labels[validation].tolist().count(label) for label in (-1, 0, 1, 2)] == [0, 0, 2, 4]
    for label, count in ((1, 2), (2, 4)):
        members = [i for i in range(len(labels)) if labels[i] == label]
        assert [i for i in validation.tolist() if labels[i] == label] == members[-count:]
    assert sorted([*train.tolist(), *validation.tolist()]) == list(range(len(labels)))
    said = "2 of 3 classes have fewer than 8 samples, so half of each is held out: 6 samples in all"
    assert shortage(samples.split(4)[1], 4) == said
    with pytest.raises(ValueError, match="too few samples to hold out"):
        Samples(torch.zeros(2, 4, 3), torch.tensor([0, 1]), CLASSES).split(1)


def test_a_split_of_a_store_reads_and_copies_nothing(store, monkeypatch):
    samples = open_store(store)
    monkeypatch.setattr(Samples, "inputs", property(lambda self: pytest.fail("the inputs were copied")))
    monkeypatch.setattr(Samples, "take", lambda *_: pytest.fail("the inputs were copied"))
    train, validation = samples.split(1)
    for part in (train, validation, train.limit(2), train.subset(torch.tensor([1])), place(train, "cpu")):
        assert part.stored.data_ptr() == samples.stored.data_ptr()  # memory-mapped, as it was
    assert len(train.limit(2).stored) == train.rows[1] + 1  # no more than is needed


def test_samples_of_a_subset_are_those_of_a_copy(images):
    whole = Samples(images, torch.tensor([0, 1, 0, -1, 1, 0]), CLASSES, {"hue": torch.arange(6.0)})
    rows = torch.tensor([4, 0, 3, 1])
    subset, copied = whole.subset(rows), whole.take(rows)
    again = torch.tensor([2, 0])
    same = [(subset, copied), (subset.limit(3), copied.limit(3)), (subset.take(again), copied.take(again))]
    same += [(subset.subset(again), copied.subset(again)), (subset.to("cpu"), copied)]
    for a, b in same:
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(a.factors["hue"], b.factors["hue"])
        assert (len(a), a.input_shape, a.rows is None or len(a.rows) == len(a)) == (len(b), b.input_shape, True)
    assert copied.rows is None
    with pytest.raises(ValueError, match="has only 4 samples: 5 cannot be taken"):
        subset.limit(5)


def test_only_the_samples_of_a_subset_go_to_another_device(images, monkeypatch):
    """Two at a time, where they are a tensor of their own."""
    monkeypatch.setattr(care.data.samples, "INPUTS_AT_ONCE", 2)
    samples = Samples(images, torch.tensor([0, 1, 0, -1, 1, 0]), CLASSES).subset(torch.tensor([4, 0, 3]))
    assert samples.nbytes == images[:3].nbytes
    assert torch.equal(_copied(samples.stored, samples.rows, torch.device("cpu")), images[[4, 0, 3]])
    assert _copied(samples.stored, samples.rows, torch.device("meta")).shape == (3, 3, 4, 5)


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


@pytest.mark.parametrize(
    ("sizes", "unlabeled", "held"),
    [
        ((59, 59, 2), 0, [10, 10, 1]),  # 20 in all, but the last class cannot give its seventh
        ((60, 1, 1), 0, [20, 0, 0]),
        ((0, 60), 0, [0, 20]),
        ((0, 40), 40, [0, 20]),
        ((500, 500), 0, [50, 50]),
        ((30_000, 20), 0, [990, 10]),
        ((6, 6), 0, [3, 3]),  # no more than half of a class
        ((), 120, [20]),
        ((), 500, [50]),
    ],
)
def test_a_tenth_is_held_out_whatever_the_smallest_class(sizes, unlabeled, held):
    labels = torch.tensor([label for label, n in enumerate(sizes) for _ in range(n)] + unlabeled * [-1])
    samples = Samples(torch.zeros(len(labels), 1, 3), labels, tuple(map(str, range(len(sizes)))))
    found = samples.split(default_validation(samples))[1].labels
    assert [(found == label).sum().item() for label in (range(len(sizes)) if sizes else [-1])] == held
