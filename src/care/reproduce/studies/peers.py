"""Not in the paper: the methods that keep what augmentations change, at equal compute, measured alike.

Every method is added to SimCLR and trained until as much has gone through the network as with four views a sample for
the epochs of the scale: SimCLR, with two, for twice as long. Their weights are those of their papers, or our defaults.
"""

from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import ACTED_ON
from care.objective import view_plan, views_seen
from care.objective.registry import find
from care.report import trade_figure
from care.reproduce.presentation import (
    HUE_DISTANCE,
    KNN,
    RATIO,
    TUNED,
    Presentation,
    Quantity,
    by_label,
    compared,
    measured_table,
    values,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.split_sweep import COLOR_RATIO, MRR
from care.reproduce.trial import Outcome, Trial
from care.train import Config, keeping

BASE, VIEWS = "SimCLR", 4
HUE_BY_NETWORK: Quantity = ("backbone", "R² of hue, network")
COLUMNS: dict[str, Quantity] = {
    "tuned probe %": TUNED,
    "kNN-200 %": KNN,
    **{f"R² of {name}, {decoder}": ("backbone", f"R² of {name}, {decoder}")
       for name in ("hue", "brightness", "crop area") for decoder in ("network", "linear")},
    "hue distance": HUE_DISTANCE,
    "held-out ratio": RATIO,
    "held-out ratio, color": COLOR_RATIO,
    "composition error, color": (ACTED_ON, "composition error, color"),
    "MRR, color": MRR,
    "H@1, color": (ACTED_ON, "H@1 by rotation, color"),
}  # fmt: skip


def settings(scale: Scale) -> dict[str, dict[str, Any]]:
    """What each label trains with."""
    d, care = scale.config("cifar10").embedding_dim, scale.care("cifar10")
    peers = {
        "AugSelf": "augself", "EquiMod": "equimod", "E-SSL": "essl", "Steerable": "steerable", "DUET": "duet",
        "LooC": "looc", "STL": "stl", "CASSLE": "cassle",
    }  # fmt: skip
    return {
        BASE: {},
        "SimCLR, four views": {"views": VIEWS},
        "MoCo-v3": {"method": "mocov3"},
        **{label: {"equivariance": name} for label, name in peers.items()},
        "SIE": {"equivariance": "sie", "equivariant_dim": d // 2},
        "CARE": care,
        "CARE, all views compared": {**care, "contrast": "all"},
        "CARE, split: hue": keeping("hue", d),
        "CARE, split: photometric": keeping("photometric", d),
    }


def trials(scale: Scale) -> list[Trial]:
    """Every method with all seeds."""
    found = []
    for label, chosen in settings(scale).items():
        views = _views(scale.config("cifar10", **chosen))
        epochs = max(1, round(VIEWS * scale.config("cifar10").epochs / views))
        found += scale.trials(label, "cifar10", **chosen, epochs=epochs)
    return found


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, with the views of a step and the speed, and the class accuracy against what is kept of the hue."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    header[1:1] = ["views a step", "samples/s"]
    for row in rows:
        first = groups[row[0]][0]
        row[1:1] = [f"{_views(first.trial.config):.3g}", f"{first.made['samples_per_second']:,.0f}"]
    points = {label: (values(group, HUE_BY_NETWORK), _percent(group)) for label, group in groups.items()}
    remarks = [
        compared(outcomes, BASE, label, quantity, words)
        for label in groups
        if label != BASE
        for quantity, words in ((TUNED, "Tuned probe"), (HUE_BY_NETWORK, "R² of hue by a network"))
    ]
    drawn = {label: pair for label, pair in points.items() if all(pair)}
    figures = {"peers": trade_figure(drawn, "R² of hue, by a network →", "tuned probe, % →", BASE)} if drawn else {}
    return Presentation(header, rows, figures, remarks)


def _percent(outcomes: Sequence[Outcome]) -> list[float]:
    return [100 * value for value in values(outcomes, TUNED)]


def _views(config: Config) -> float:
    """How many views of a sample go through the encoder in a step."""
    return views_seen(view_plan(config, config.batch_size), find("method", config.method.name), config.method.settings)
