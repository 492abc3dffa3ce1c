"""Linear probes: protocols, rows and streams that cannot be are refused in a sentence."""

import dataclasses

import pytest
import torch

from care.evaluate.features.probe import PAPER, Protocol, linear_probe, train_probes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": "lars"}, "optimizer"),
        ({"learning_rates": ()}, "learning_rates"),
        ({"learning_rates": (0.1, 0.0)}, "learning_rates"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"momentum": 1.0}, "momentum"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"milestones": (100,)}, "milestones"),
        ({"milestones": (20, 10)}, "milestones"),
        ({"decay": 0.0}, "decay"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"seeds": ()}, "seeds"),
    ],
)
def test_protocols_that_cannot_be_are_refused(change, message, unchecked):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PAPER, **change)


ROWS = {
    "train_features": torch.eye(4),
    "train_labels": torch.tensor([0, 1, 0, 1]),
    "test_features": torch.eye(4),
    "test_labels": torch.tensor([0, 1, 0, 1]),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": torch.tensor([0, 1, 0, -1])}, "training rows must all have a class"),
        ({"test_labels": torch.tensor([0, 1, 0, -1])}, "test rows must all have a class"),
        ({"train_features": torch.full((4, 4), torch.inf)}, "training features must be finite"),
        ({"test_features": torch.full((4, 4), torch.nan)}, "test features must be finite"),
        ({"test_features": torch.ones(4, 3)}, "4 features but test rows 3"),
        ({"train_labels": torch.tensor([0, 1])}, "training rows must be"),
        ({"test_features": torch.ones(0, 4), "test_labels": torch.ones(0, dtype=torch.int64)}, "n ≥ 1"),
    ],
)
def test_mistakes_are_named(change, message, unchecked):
    with pytest.raises(ValueError, match=message):
        linear_probe(**{**ROWS, **change}, protocol=Protocol(epochs=1))


def test_rows_too_few_to_choose_by_are_refused():
    rows = {**ROWS, "train_labels": torch.tensor([0, 1, 2, 3])}
    with pytest.raises(ValueError, match="give only one rate"):
        linear_probe(**rows, protocol=Protocol(learning_rates=(0.1, 1.0), epochs=1))


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([(torch.ones(2, 4), torch.tensor([0, -1]))], "labels must be in 0 … 1"),
        ([(torch.ones(2, 4), torch.tensor([0, 2]))], "labels must be in 0 … 1"),
        ([(torch.full((2, 4), torch.nan), torch.tensor([0, 1]))], "not finite"),
        ([], "no batches"),
    ],
)
def test_streams_with_mistakes_are_refused_after_one_epoch(batches, message):
    with pytest.raises(ValueError, match=message):
        train_probes(lambda epoch: batches, 4, 2, PAPER, tick=lambda done, total: pytest.fail("went on"))
