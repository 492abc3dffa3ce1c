"""Evaluations that several files use."""

import pytest

from care.evaluate import evaluate_model
from evaluate.planted import QUICK, colors, pixels, study


@pytest.fixture(scope="session")
def by_color():
    return evaluate_model(study(colors), QUICK)


@pytest.fixture(scope="session")
def by_pixel():
    return evaluate_model(study(pixels), QUICK)
