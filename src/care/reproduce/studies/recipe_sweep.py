"""Not in the paper: which recipe, how many views, and how hue and colors are kept at the least cost, chosen on
images cut from the training split. All put as many views through the encoder as SimCLR does in 100 epochs."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from care.evaluate.comparison.quantities import ACTED_ON, Key
from care.report import tradeoff_figure
from care.reproduce.presentation import (
    HUE,
    HUE_DISTANCE,
    KNN,
    KNN_OF_Z,
    TUNED,
    Presentation,
    by_label,
    mean,
    measured_table,
    values,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.lambda_sweep import PER_CLASS
from care.reproduce.trial import Outcome, Trial
from care.train import keeping
from care.train.recipes import SMALL_IMAGES
from care.train.recommended import CHUNKS, FRACTION, KEEP_SETTINGS

BASE, COMPUTE = "SimCLR", 200  # views of a sample, over all epochs
AT_LAYER: Key = ("intermediate", HUE[1])  # of the layer that the equivariant part is made from
COLUMNS: dict[str, Key] = {
    "tuned probe %": TUNED,
    "kNN-200 %": KNN,
    "kNN-200 % of z": KNN_OF_Z,
    "held-out ratio, hue": (ACTED_ON, "held-out ratio, hue"),
    "composition error, hue": (ACTED_ON, "composition error, hue"),
    "held-out ratio, color": (ACTED_ON, "held-out ratio, color"),
    "composition error, color": (ACTED_ON, "composition error, color"),
    "R² of hue": HUE,
    "R² of hue, its layer": AT_LAYER,
    "hue distance": HUE_DISTANCE,
}
SGD = {name: value for name, value in SMALL_IMAGES.items() if name not in ("model", "epochs")} | {"warmup_epochs": 5}
ADAM = {
    "policy": "small_images", "batch_size": 256, "optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6,
    "schedule": "cosine", "warmup_epochs": 2,
}  # fmt: skip
MUON, FASTER = {"optimizer": "muon"}, {"learning_rate": 3e-3}
FOUR = {"views": 4, "batch_size": 128}  # as many views a step as two of 256 samples


def candidates(embedding_dim: int) -> dict[str, dict[str, Any]]:
    """What each label trains with."""
    hue = {**ADAM, **FOUR, **keeping("hue", embedding_dim), "chunks": 4, "equivariance_fraction": 0.25}
    four, faster = {**ADAM, **FOUR}, {**hue, **MUON, **FASTER}
    small = {"equivariant_weight": 3e-3}
    predicted = {name: KEEP_SETTINGS[name] for name in ("augself_weight", "equivariant_depth")}
    smaller = {"train_size": 24}
    kept = {**four, **MUON, **FASTER, **smaller, **keeping("hue", embedding_dim), **KEEP_SETTINGS}
    kept |= {"chunks": CHUNKS, "equivariance_fraction": FRACTION}  # as `care train --keep hue`
    apart = {**faster, "chunks": 8, "equivariance_fraction": 1.0, "stop_gradient": True}  # views that cost little
    return {
        f"{BASE}, SGD": SGD,
        f"{BASE}, SGD, four views": {**SGD, "views": 4},
        BASE: ADAM,
        f"{BASE}, four views": four,
        f"{BASE}, Muon, 0.003": {**ADAM, **MUON, **FASTER},
        f"{BASE}, four views, Muon": {**four, **MUON},
        f"{BASE}, four views, Muon, 0.003": {**four, **MUON, **FASTER},
        f"{BASE}, four views, Muon, 0.01": {**four, **MUON, "learning_rate": 1e-2},
        f"{BASE}, Muon, 0.003, 24 px": {**ADAM, **MUON, **FASTER, **smaller},
        f"{BASE}, four views, Muon, 0.003, 24 px": {**four, **MUON, **FASTER, **smaller},
        f"{BASE}, four views, Muon, 0.003, 20 px": {**four, **MUON, **FASTER, "train_size": 20},
        f"{BASE}, four views, Muon, 0.003, τ = 0.2": {**four, **MUON, **FASTER, "temperature": 0.2},
        "keep hue, 24 px": kept,
        "keep hue, 24 px, w = 0.02": {**kept, "augself_weight": 0.02},
        "keep hue, 24 px, a quarter of each chunk": {**kept, "chunks": 4, "equivariance_fraction": 0.25},
        "CARE, all views compared": {**ADAM, "batch_size": 128, "equivariance": "care", "contrast": "all"},
        "split: hue": hue,
        "split: hue, composed": {**hue, "equivariance_views": "composed"},
        "split: hue, from layer3, Muon": {**hue, **MUON, "equivariant_layer": "layer3"},
        "split: hue, from layer2, κ = 0.003, Muon, 0.003": {**faster, **small, "equivariant_layer": "layer2"},
        "split: hue, from layer3, stop-gradient, Muon, 0.003": {**apart, "equivariant_layer": "layer3"},
        "split: hue, from layer2, stop-gradient, Muon, 0.003": {**apart, "equivariant_layer": "layer2"},
        "split: hue, from layer1, stop-gradient, Muon, 0.003": {**apart, "equivariant_layer": "layer1"},
        "split: hue, AugSelf, from layer2, Muon, 0.003": {**apart, **predicted, "equivariant_layer": "layer2"},
        "split: hue, AugSelf, from layer3, Muon, 0.003": {**apart, **predicted, "equivariant_layer": "layer3"},
        "split: photometric, from layer2, stop-gradient, Muon, 0.003": {
            **apart,
            **keeping("photometric", embedding_dim),
            "equivariant_layer": "layer2",
        },
    }


def trials(scale: Scale) -> list[Trial]:
    """One seed of each, all measured under the paper's policy."""
    usual, smoke = scale.config("cifar10"), scale.name == "smoke"
    shared = {"validation": 5} if smoke else {"validation": PER_CLASS, "evaluate_every": 25}
    measures = dataclasses.replace(scale.measures, augmentations=min(6, scale.measures.augmentations), probe="none")
    found = []
    for label, settings in candidates(usual.embedding_dim).items():
        chosen = {name: value for name, value in settings.items() if not (smoke and name in SGD | MUON)}
        config = scale.config("cifar10", **{**shared, **chosen, "measure_policy": usual.policy})
        epochs = usual.epochs if smoke else round(COMPUTE / config.views_a_step)
        found.append(Trial(label, config.replace(epochs=epochs), measures))
    return [trial for trial in found if trial.label in (BASE, "split: hue, composed")] if smoke else found


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, with the views of a step, and the class accuracy against what is kept of the hue, where it is kept."""
    header, rows = measured_table(outcomes, COLUMNS)
    groups = by_label(outcomes)
    for row, group in zip(rows, groups.values(), strict=True):
        row.insert(1, f"{group[0].trial.config.views_a_step:.3g}")
    header.insert(1, "views a step")
    points = {
        label: (values(group, AT_LAYER) or values(group, HUE), [100 * v for v in values(group, TUNED)])
        for label, group in groups.items()
    }
    drawn = {label: pair for label, pair in points.items() if all(pair)}
    figures = {"recipe-sweep": tradeoff_figure(drawn, "R² of hue →", "tuned probe, % →", BASE)} if drawn else {}
    best = max(groups, key=lambda label: mean(groups[label], TUNED))
    remark = f"The best tuned probe on the validation images: {best}, {100 * mean(groups[best], TUNED):.2f} %."
    return Presentation(header, rows, figures, (remark,))
