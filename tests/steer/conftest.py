"""For tests of commands: what is fitted is fitted for a few steps. How well it fits is tested where it is planted."""

from functools import partial

import pytest

from care.steer import canonical, fitting, probing, steering


@pytest.fixture
def one_family_canonicalized(monkeypatch):
    """For tests of other parts of `care steer`, of which this one takes longest."""
    monkeypatch.setattr(steering, "canonicalized_families", lambda policy: canonical.canonicalized_families(policy)[:1])


@pytest.fixture(scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "STEPS", 10)
        patch.setattr(probing, "STEPS", probing.VALIDATED)  # up to the first validation
        patch.setattr(probing, "WIDTH", 16)
        patch.setattr(canonical, "DRAWS", 2)
        patch.setattr(steering, "fit_predictor", partial(steering.fit_predictor, steps=10))
        yield
