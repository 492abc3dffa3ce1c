"""Not in the paper: the methods that keep what augmentations change, at equal compute, measured alike.

Every method is trained with one recipe, in steps of as many views, until as much has gone through the network as with
SimCLR in 50 epochs; at the long scale in 200.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from care.evaluate.comparison.quantities import ACTED_ON, Key
from care.evaluate.transfer.result import TRANSFER_TO
from care.report import tradeoff_figure
from care.reproduce.presentation import (
    HUE_DISTANCE,
    KNN,
    KNN_OF_Z,
    KNN_WHITENED,
    RATIO,
    TUNED,
    Presentation,
    by_label,
    compared,
    measured_table,
    values,
)
from care.reproduce.scales import Scale
from care.reproduce.studies.recipe_sweep import ADAM, FASTER, MUON
from care.reproduce.studies.split_sweep import COLOR_RATIO, MRR
from care.reproduce.trial import Outcome, Trial
from care.train import Config, keeping
from care.train.recipes import applicable
from care.train.recommended import CHUNKS, FRACTION, KEEP_SETTINGS

BASE, VIEWS = "SimCLR", 4
CONTROL = "SimCLR, four views"  # what keeps something has as many, and is to be worth more than they are
# What all methods train with in place of the scale's settings: the best for SimCLR with two views on validation images
# (`recipe-sweep`), and the policy that all are measured under. The batch is that of SimCLR.
RECIPE: dict[str, Any] = {
    **ADAM, **MUON, **FASTER, "warmup_epochs": 1, "evaluate_every": 100, "measure_policy": "cifar10",
}  # fmt: skip
EPOCHS = 0.5  # of SimCLR, as a fraction of the scale's: Muon takes half as many
SIMCLR_VIEWS, BATCHES = 2, 32  # batches are a multiple of this
# Smaller views while training, of ¾ of the side: the same compute sees more of them. Methods are compared at one size.
SMALLER, SMALLER_HERE = ", 24 px", {"train_size": 24}
SIZES = "        ○ trained on views of 32 px   ● of 24 px"
# The weight of every method that has one, by the name of its setting, and what `peers-weights` chose for it by its
# rule. None is chosen yet: a method that is not there has its paper's weight, or our default.
WEIGHTS = {
    "Hard negatives": "concentration",
    "AugSelf": "augself_weight",
    "EquiMod": "equimod_weight",
    "E-SSL": "essl_weight",
    "Steerable": "steerable_weight",
    "DUET": "duet_weight",
    "LooC": "looc_weight",
    "STL": "stl_weight",
    "SIE": "sie_weight",
    "CARE": "care_weight",
    "CARE, all views compared": "care_weight",
}
CHOSEN: dict[str, float] = {}

TRANSFERRED = {"Flowers-102": "flowers102", "CIFAR-100": "cifar100"}
FITTED_TO = {"": "all labels", " 5-shot": "5-way 5-shot", " 1-shot": "5-way 1-shot"}
HUE_BY_NETWORK: Key = ("backbone", "R² of hue, network")
KEPT: dict[str, Key] = {
    **{f"R² of {name}, {decoder}": ("backbone", f"R² of {name}, {decoder}")
       for name in ("hue", "brightness", "crop area") for decoder in ("network", "linear")},
    "hue distance": HUE_DISTANCE,
    "held-out ratio": RATIO,
    **{f"{measure}, hue": (ACTED_ON, f"{measure}, hue") for measure in ("held-out ratio", "composition error")},
    "held-out ratio, color": COLOR_RATIO,
    "composition error, color": (ACTED_ON, "composition error, color"),
    "MRR, color": MRR,
    "H@1, color": (ACTED_ON, "H@1 by rotation, color"),
}  # fmt: skip


def columns(transferred: Mapping[str, str]) -> dict[str, Key]:
    """Of the table: class accuracies, here and on other data sets, and what is kept."""
    elsewhere = {
        f"{name}{few} %": (f"{TRANSFER_TO}{data}", to)
        for name, data in transferred.items()
        for few, to in FITTED_TO.items()
    }
    here = {"tuned probe %": TUNED, "kNN-200 %": KNN, "kNN-200 % whitened": KNN_WHITENED, "kNN-200 % of z": KNN_OF_Z}
    return {**here, **elsewhere, **KEPT}


def settings(scale: Scale) -> dict[str, dict[str, Any]]:
    """What each label trains with, at the weights of the papers."""
    d, care = scale.config("cifar10").embedding_dim, scale.care("cifar10")
    care["chunks"] = scale.config("cifar10", **care).flat()["chunks"]  # on other data, too
    chunks = {} if scale.instead else {"chunks": CHUNKS}
    half = {} if scale.instead else {"equivariance_fraction": FRACTION}
    of_two = {what: {**keeping(what, d), **KEEP_SETTINGS, **chunks, **half} for what in ("hue", "photometric")}
    kept = {what: {**own, "views": VIEWS} for what, own in of_two.items()}
    smaller = {"train_size": 16} if scale.instead else SMALLER_HERE
    middle = {**keeping("hue", d), **KEEP_SETTINGS, "equivariant_depth": 2, "augself_weight": 0.0}
    peers = {
        "AugSelf": "augself", "EquiMod": "equimod", "E-SSL": "essl", "Steerable": "steerable", "DUET": "duet",
        "LooC": "looc", "STL": "stl", "CASSLE": "cassle",
    }  # fmt: skip
    at_full_size = {
        BASE: {},
        CONTROL: {"views": VIEWS},  # with smaller views `care train`
        **{f"keep {what}": own for what, own in kept.items()},  # with smaller views `care train --keep`
        "keep hue, views predicted": {**kept["hue"], "augself_weight": 0.0, "equimod_weight": 0.3},
        "keep hue, E-SSL": {**kept["hue"], "essl_weight": 0.4},
        "MoCo-v3": {"method": "mocov3", "temperature": 0.2},  # theirs, whatever the recipe has for SimCLR
        "MoCo-v3, keep hue": {**of_two["hue"], "method": "mocov3", "temperature": 0.2},
        "MoCo-v2": {"method": "mocov2", "symmetric": True},
        "DCL": {"method": "dcl", "temperature": 0.1},
        "Hard negatives": {"method": "hard_negatives"},
        **{label: {"equivariance": name} for label, name in peers.items()},
        f"{CONTROL}, E-SSL": {"views": VIEWS, "equivariance": "essl"},
        "E-SSL, a quarter turned": {"equivariance": "essl", "turned_fraction": 0.25},
        "SIE": {"equivariance": "sie", "equivariant_dim": d // 2},
        "CARE": care,
        "CARE, all views compared": {**care, "contrast": "all"},
        "CARE, split: hue, from the middle": {**middle, **chunks},
    }
    return at_full_size | {label + SMALLER: {**own, **smaller} for label, own in at_full_size.items()}


def trials(scale: Scale) -> list[Trial]:
    """Every method with all seeds, at the weights that were chosen."""
    return trials_on("cifar10", scale, TRANSFERRED)


def trials_on(data: str, scale: Scale, transferred: Mapping[str, str], **shared: Any) -> list[Trial]:
    """The same, trained on a data set and measured on the others, too; `shared` as in `peer_config`."""
    transfer = () if scale.instead else tuple(transferred.values())
    # The tuned probe is in the place of the paper's.
    measures = dataclasses.replace(scale.measures, probe="none", augmentations=min(6, scale.measures.augmentations))
    found = []
    for label, own in settings(scale).items():
        method = label.removesuffix(SMALLER)
        chosen = {**own, **({WEIGHTS[method]: CHOSEN[method]} if method in CHOSEN else {})}
        configs = (peer_config(scale, seed, chosen, data, **shared) for seed in scale.seeds)
        found += [Trial(label, config, measures, transfer) for config in configs]
    return found


def peer_config(scale: Scale, seed: int, chosen: dict[str, Any], data: str = "cifar10", **shared: Any) -> Config:
    """A method with the recipe, in steps of as many views as SimCLR's, until as much has gone through the network.

    `shared` goes before the recipe, for all methods alike.
    """
    usual = {} if scale.instead else {"epochs": round(EPOCHS * scale.config(data).epochs), **RECIPE}
    recipe = {**usual, **shared}
    config = scale.config(data, seed, **{**applicable(recipe, chosen), **chosen})
    share = SIMCLR_VIEWS / config.views_a_step
    batch = max(1, round(share * config.batch_size / BATCHES)) * BATCHES
    return config.replace(epochs=max(1, round(share * config.epochs)), batch_size=batch)


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, with the views of a step and the speed, and the class accuracy against what is kept of the hue."""
    return presented(outcomes, "peers", TRANSFERRED)


def presented(outcomes: Sequence[Outcome], title: str, transferred: Mapping[str, str]) -> Presentation:
    """The same of a data set, of which `title` is the name of the figure."""
    header, rows = measured_table(outcomes, columns(transferred))
    groups = by_label(outcomes)
    header[1:1] = ["views a step", "samples/s"]
    for row in rows:
        first = groups[row[0]][0]
        row[1:1] = [
            f"{first.trial.config.views_a_step:.3g}",
            "–" if (rate := first.made["samples_per_second"]) is None else f"{rate:,.0f}",
        ]
    remarks = [*_differences(outcomes, transferred), *_not_measured(outcomes, transferred)]
    return Presentation(header, rows, _figures(groups, title, transferred), remarks)


def _differences(outcomes: Sequence[Outcome], transferred: Mapping[str, str]) -> list[str]:
    """Every quantity that was measured, for all pairs to compare; methods with a single seed are only named."""
    elsewhere = {name: (f"{TRANSFER_TO}{data}", "all labels") for name, data in transferred.items()}
    here = {"Tuned probe": TUNED, "kNN-200": KNN, "kNN-200 whitened": KNN_WHITENED, "kNN-200 of z": KNN_OF_Z}
    asked = {**here, **elsewhere, "R² of hue by a network": HUE_BY_NETWORK}
    quantities = {words: what for words, what in asked.items() if values(outcomes, what)}
    seeds = {label: len(group) for label, group in by_label(outcomes).items()}
    alone = [label for label in seeds if seeds[label] == 1 and label != BASE]
    pairs = _pairs([label for label in seeds if label not in alone])
    said = [compared(outcomes, *pair, what, words) for pair in pairs for words, what in quantities.items()]
    return [*said, f"One seed, which decides nothing: {'; '.join(alone)}."] if alone else said


def _pairs(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Methods against SimCLR with views of the same size; `keep` against the control, too, and against every other
    method and its own variants; smaller views against full-size ones."""
    others = [label for label in labels if not label.startswith((BASE, "keep"))]
    pairs = [(_at_size_of(label, BASE), label) for label in labels]
    pairs += [(_at_size_of(label, CONTROL), label) for label in labels if label.startswith("keep")]
    pairs += [(_at_size_of(label, "keep hue"), label) for label in labels if label.startswith("keep hue, ")]
    pairs += [(label, _at_size_of(label, "keep hue")) for label in others]
    pairs += [(label, label + SMALLER) for label in labels if label != BASE]
    pairs += [(BASE, BASE + SMALLER)]
    return [pair for pair in pairs if set(pair) <= set(labels) and pair[0] != pair[1]]


def _at_size_of(label: str, reference: str) -> str:
    """The reference that trains with views of the same size."""
    return reference + SMALLER if label.endswith(SMALLER) else reference


def _figures(groups: dict[str, list[Outcome]], title: str, transferred: Mapping[str, str]) -> dict[str, Any]:
    """A point per method: what is kept of the hue, and of what use the features are for classes, here and elsewhere."""
    found = {}
    accuracies = {title: ("tuned probe, % →", TUNED)} | {
        f"{title}-{data}": (f"{name}, all labels, % →", (f"{TRANSFER_TO}{data}", "all labels"))
        for name, data in transferred.items()
    }
    for file, (up, accuracy) in accuracies.items():
        points = {label: (values(g, HUE_BY_NETWORK), _percent(g, accuracy)) for label, g in groups.items()}
        drawn = {label: pair for label, pair in points.items() if all(pair)}
        if drawn:
            smaller = [label.endswith(SMALLER) for label in drawn]
            across = f"R² of hue, by a network → {SIZES if any(smaller) and not all(smaller) else ''}"
            found[file] = tradeoff_figure(drawn, across, up, BASE, SMALLER if any(smaller) else None)
    return found


def _not_measured(outcomes: Sequence[Outcome], transferred: Mapping[str, str]) -> list[str]:
    """Why cells are empty: data sets that were not there when a method was measured, or not reached."""
    found = []
    for name, data in transferred.items():
        wanted = [o for o in outcomes if data in o.trial.transfer]
        without = [o.trial.label for o in wanted if o.value(f"{TRANSFER_TO}{data}", "all labels") is None]
        if without:
            labels = ", ".join(dict.fromkeys(without))
            found.append(
                f"{name} was not prepared (`care data prepare {data}`) when these were measured, or measuring was "
                f"stopped: {labels}."
            )
    return found


def _percent(outcomes: Sequence[Outcome], accuracy: Key) -> list[float]:
    return [100 * value for value in values(outcomes, accuracy)]
