"""Evaluations that several files use."""

import pytest

from care.evaluate import evaluate_model
from evaluate.planted import QUICK, colors, pixels, setup


@pytest.fixture(scope="session")
def by_color():
    return evaluate_model(setup(colors), QUICK)


@pytest.fixture(scope="session")
def by_pixel():
    return evaluate_model(setup(pixels), QUICK)


@pytest.fixture(scope="session")
def split():
    """A split embedding: 24 coordinates, 8 of them invariant and 8 equivariant by name."""
    parts = lambda x: {"embedding": x[:, :, 0], "invariant": x[:, 0, 0], "equivariant": x[:, 1, 0]}  # noqa: E731
    embed = lambda x: {name: part.flatten(1) - 0.3 for name, part in parts(x).items()}  # noqa: E731
    return evaluate_model(setup(embed), QUICK)
