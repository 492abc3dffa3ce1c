import copy
import json
from pathlib import Path

import pytest
import torch
from sklearn.metrics import r2_score

from care.evaluate import Evaluation, summary
from care.evaluate.decoding.few_images import images_for_r2, r2_precision, too_few_images

SHAPES = sorted((Path(__file__).parents[3] / "results" / "small" / "trials").glob("shapes-*.json"))[0]


@pytest.mark.parametrize("images", [60, images_for_r2()])
def test_the_interval_is_that_of_drawn_samples(images):
    """R² = 1/3 in expectation: the known half of y is predicted, for half of the images, 4,000 times."""
    g = torch.Generator().manual_seed(0)
    signal, noise = (torch.randn(images // 2, 4000, generator=g) for _ in range(2))
    y, predicted = signal + 2**0.5 * noise, signal
    found = r2_score(y.numpy(), predicted.numpy(), multioutput="raw_values")
    assert 1.96 * found.std() == pytest.approx(r2_precision(images), rel=0.15)


def test_the_least_number_of_images_gives_a_tenth():
    assert r2_precision(images_for_r2()) <= 0.1 < r2_precision(images_for_r2() - 2)
    assert too_few_images("R²", images_for_r2()) is None


def test_numbers_of_few_images_are_not_printed_and_stay_in_the_record():
    record = json.loads(SHAPES.read_bytes())["evaluation"]
    few = copy.deepcopy(record)
    few["about"]["test_images"] = 60
    shown = " ".join(summary(Evaluation(few, {})).split())
    assert "decoded from pairs (h(x), h(a(x))): – (60 images give R² ± 0.28 at best; 456 are needed for ± 0.1)" in shown
    assert "backbone, linear" not in shown
    assert "backbone, linear" in " ".join(summary(Evaluation(record, {})).split())
    assert few["decoding"] == record["decoding"]


def test_a_measurement_of_few_images_prints_none_either():
    record = json.loads(SHAPES.read_bytes())["evaluation"]
    measured = Evaluation(record, {}).measurement("backbone").to_json() | {"decoding": {"linear": {"hue": 0.5}}}
    shown = [
        str(type(Evaluation(record, {}).measurement("backbone")).from_json(measured | {"images": n})) for n in (60, 900)
    ]
    assert ["0.50" in text.splitlines()[-1] for text in shown] == [False, True]
    assert "456 are needed" in " ".join(shown[0].split())
