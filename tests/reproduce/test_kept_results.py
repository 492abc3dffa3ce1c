"""What `results/` keeps: pictures in few colors, and records that are found again whatever was added since."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from care.evaluate.comparison.quantities import ACTED_ON
from care.reproduce import STUDIES, scale_named, write_reproduction
from care.reproduce.presentation import Presentation
from care.reproduce.trial import find_outcome


def test_pictures_are_kept_in_few_colors_and_look_the_same(tmp_path):
    figure = Figure(figsize=(2, 1.5))
    figure.add_subplot().imshow(np.random.default_rng(0).random((8, 8)), cmap="viridis")
    write_reproduction(tmp_path / "study", "care reproduce study", Presentation([], [], {"picture": figure}), [])
    figure.savefig(tmp_path / "drawn.png", dpi=120)
    kept, drawn = Image.open(tmp_path / "study" / "picture.png"), Image.open(tmp_path / "drawn.png")
    assert (kept.mode, kept.size) == ("P", drawn.size)
    difference = np.abs(np.asarray(kept.convert("RGB"), float) - np.asarray(drawn.convert("RGB"), float))
    assert difference.mean() < 0.5
    assert difference.max() < 30


@pytest.mark.parametrize("scale", ["small", "long", "deep"])
def test_trials_of_before_are_still_found(scale):
    """Settings of measuring that came since do not change their names."""
    trials = {trial.slug: trial for name in STUDIES for trial in STUDIES[name].trials(scale_named(scale))}
    folder = Path(__file__).parents[2] / "results" / scale / "trials"
    kept = [file.stem for file in folder.glob("*.json")]
    assert len(kept) > 1
    kinds = {}
    for slug in kept:
        outcome = find_outcome(trials[slug], folder, {})
        assert outcome is not None
        measured = outcome.evaluation.record["measurements"].items()
        fields = ((output, *found["families"]["all"]) for output, found in measured)
        kinds.setdefault((outcome.evaluation.estimators, *fields), outcome)
    for outcome in kinds.values():  # records with the same fields of one version are read alike
        assert outcome.value(ACTED_ON, "held-out ratio") is not None
