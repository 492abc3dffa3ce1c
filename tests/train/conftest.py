"""Programs that need a process of their own share one import."""

import pytest
from imported import Imported


@pytest.fixture(scope="session")
def imported():
    with Imported() as process:
        yield process
