"""For tests of commands: what is fitted is fitted for a few steps. How well it fits is tested where it is planted."""

import pytest

from care.steer import fitting, probing


@pytest.fixture(scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "STEPS", 50)
        patch.setattr(probing, "STEPS", 30)
        yield
