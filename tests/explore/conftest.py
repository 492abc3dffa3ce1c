"""A gallery of small models, and the server of its page."""

import pytest
from exhibits import serving, small_gallery


@pytest.fixture(scope="module")
def gallery():
    return small_gallery()


@pytest.fixture(scope="module")
def server(gallery):
    with serving(gallery) as server:
        yield server
