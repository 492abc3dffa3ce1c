import pytest

from care.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("name", "suggested"), [("hew", "; did you mean hue?"), ("crops", "; did you mean crop?"), ("xyz", ""), ("", "")]
)
def test_the_closest_name_is_suggested(name, suggested):
    assert did_you_mean(name, {"hue": 1, "crop": 2}) == suggested
