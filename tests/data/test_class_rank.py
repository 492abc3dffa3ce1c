import torch

from care.data.class_rank import rank_within_class


def test_the_rank_counts_earlier_samples_of_the_class(generator):
    labels = torch.randint(-1, 5, (200,), generator=generator)
    expected = [labels[:i].tolist().count(label) for i, label in enumerate(labels.tolist())]
    assert rank_within_class(labels).tolist() == expected
    assert rank_within_class(labels[:0]).tolist() == []
