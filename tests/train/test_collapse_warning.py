"""A collapse is told while it trains, once, and a network that has only begun to learn has not collapsed."""

import pytest

from care.train import Progress, default_config, prepare, train
from care.train.collapse import collapse_warning


def log(*ranks):
    return [{"epoch": i, **({} if rank is None else {"rankme": rank})} for i, rank in enumerate(ranks, start=1)]


def warned(*ranks, embedding_dim=128):
    """The epochs after which there is a warning."""
    lines = [collapse_warning(log(*ranks[:i]), embedding_dim) for i in range(1, len(ranks) + 1)]
    return [epoch for epoch, line in enumerate(lines, start=1) if line]


@pytest.mark.parametrize(
    ("ranks", "epochs"),
    [
        ((30.0, 50.0, 60.0), []),
        ((1.2, 1.3, 1.5, 8.0), []),  # it begins low and rises
        ((30.0, 1.5, 1.2, 1.1), [2]),  # once
        ((1.8, 1.4, 1.3), [2]),  # it begins low and stays there
        ((100.0, 50.0, 9.9, 5.0), [3]),  # to a tenth
        ((100.0, None, None, 9.0, None), [4]),  # not every epoch is measured
        ((1.1,), []),
        ((), []),
    ],
)
def test_what_is_a_collapse(ranks, epochs):
    assert warned(*ranks) == epochs


def test_few_dimensions_are_no_collapse():
    assert warned(1.9, 1.8, 1.7, embedding_dim=2) == []
    assert warned(1.9, 1.05, embedding_dim=2) == [2]


class Heard(Progress):
    def __init__(self):
        self.said, self.epochs = [], []

    def say(self, *sentences):
        self.said += sentences

    def epoch(self, record):
        self.epochs.append(record)


@pytest.mark.parametrize(("method", "lines"), [("invariance", 1), ("simclr", 0)])
def test_a_training_tells_it(method, lines, tmp_path):
    """Invariance alone is best served by one embedding for all clouds."""
    settings = {"method": method, "learning_rate": 0.03, "epochs": 3, "limit": 128, "batch_size": 32}
    config = default_config("chains", **settings, evaluate_every=1, device="cpu")
    heard = Heard()
    train(prepare(config, tmp_path / "run"), heard)
    assert len(heard.said) == lines
    assert all(line.startswith("the embedding has collapsed: after epoch ") for line in heard.said)
    assert (heard.epochs[-1]["rankme"] < 2) == bool(lines)
