"""Not in the paper: how many minutes it takes, from the start of the command, to reach 90 % on CIFAR-10.

The learning-rate schedule needs the number of epochs beforehand. So each row is a whole training, and the fastest one
that reaches 90 % counts.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import Key
from care.report import tradeoff_figure
from care.reproduce.presentation import (
    KNN,
    TUNED,
    Presentation,
    by_label,
    mean,
    measured_table,
    seen_views,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.peers import SMALLER_HERE
from care.reproduce.studies.recipe_sweep import ADAM, FASTER, FOUR, MUON
from care.reproduce.trial import Outcome, Trial

GOAL = 0.9
IMAGES = 50_000
LARGER = {"batch_size": 256, "learning_rate": 5e-3}
# Label → (millions of views of 32 pixels that go through the encoder, or as many pixels in smaller views; settings that
# differ from the recipe that `recipe-sweep` found best for classes). SimCLR's two views for 100 epochs are ten million.
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "15 million views": (15, {}),
    "20 million views": (20, {}),
    "20 million views, batch 256": (20, LARGER),
    "30 million views, batch 256": (30, LARGER),
    "40 million views, batch 256": (40, LARGER),
    "6 million views, batch 256, 24 px": (6, {**LARGER, **SMALLER_HERE}),
    "16 million views, batch 256, 24 px": (16, {**LARGER, **SMALLER_HERE}),
    "32 million views, batch 256, 24 px": (32, {**LARGER, **SMALLER_HERE}),
}
COLUMNS: dict[str, Key] = {"tuned probe %": TUNED, "kNN-200 %": KNN}


def trials(scale: Scale) -> list[Trial]:
    """One seed of each length."""
    measures = dataclasses.replace(scale.measures, probe="none", augmentations=min(2, scale.measures.augmentations))
    found = []
    for label, (millions, chosen) in RUNS.items():
        recipe = {"views": 4} if scale.instead else {**ADAM, **FOUR, **MUON, **FASTER, **chosen}
        config = scale.config("cifar10", **recipe)
        epochs = config.epochs if scale.instead else round(millions * 1e6 / (config.views_a_step * IMAGES))
        # Measuring during training would count as training time.
        config = config.replace(epochs=epochs, evaluate_every=epochs, measure_policy=scale.config("cifar10").policy)
        found.append(Trial(label, config, measures))
    return found[:1] if scale.instead else found


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, with the minutes and the part that is startup; accuracies over minutes; and the fastest run."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    header[1:1] = ["minutes", "of which the start"]
    for row in rows:
        row[1:1] = _minutes(groups[row[0]][0])
    timed = [outcome for outcome in outcomes if outcome.made.get("seconds_from_start")]
    # No line through them: they differ in more than their length.
    points = {
        f"{o.trial.label}: {title}": ([o.made["seconds_from_start"] / 60], [100 * mean([o], quantity)])
        for o in timed
        for title, quantity in (("tuned probe", TUNED), ("kNN", KNN))
    }
    across, up = "← minutes from the start of the command", "accuracy, % →"
    drawn = {"speedrun": tradeoff_figure(points, across, up)} if timed else {}
    remarks = [_first(timed, words, quantity) for words, quantity in (("Tuned probe", TUNED), ("kNN, k = 200", KNN))]
    return Presentation(header, rows, drawn, remarks)


def _minutes(outcome: Outcome) -> list[str]:
    """The minutes from the start of the command to the saved weights, and those not spent on steps at their usual pace:
    imports, data, compiling."""
    seconds = outcome.made.get("seconds_from_start")
    if seconds is None:
        return ["–", "–"]
    config = outcome.trial.config
    steps = seen_views(outcome) / config.views_a_step / outcome.made["samples_per_second"]
    return [f"{seconds / 60:.2f}", f"{(seconds - steps) / 60:.2f}"]


def _first(timed: Sequence[Outcome], words: str, quantity: Key) -> str:
    """A remark on the fastest trial that reached the goal."""
    reached = [outcome for outcome in timed if mean([outcome], quantity) >= GOAL]
    if not reached:
        return f"{words}: {100 * GOAL:.0f} % was not reached."
    best = min(reached, key=lambda outcome: outcome.made["seconds_from_start"])
    minutes, hardware = best.made["seconds_from_start"] / 60, best.made.get("hardware", "unknown hardware")
    return f"{words}: {100 * mean([best], quantity):.2f} % in {minutes:.1f} minutes ({best.trial.label}, {hardware})."
