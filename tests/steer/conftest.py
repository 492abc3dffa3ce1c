"""For tests of commands: what is fitted is fitted for a few steps. How well it fits is tested where it is planted."""

from functools import partial

import pytest

from care import steer
from care.steer import fitting, probing


@pytest.fixture(scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "STEPS", 50)
        patch.setattr(probing, "STEPS", 30)
        patch.setattr(steer, "fit_predictor", partial(steer.fit_predictor, steps=30))
        yield
