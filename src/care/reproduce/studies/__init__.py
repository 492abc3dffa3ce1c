"""All studies by name: figures and tables of the paper, and studies that are not in the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from care.reproduce.presentation import Presentation
from care.reproduce.scales import Scale
from care.reproduce.studies import (
    ablation,
    decoding,
    equal_compute,
    groups,
    keeping_color,
    lambda_sweep,
    linear_probe,
    pairs,
    peers,
    peers_cifar100,
    peers_flowers,
    peers_weights,
    proteins,
    recipe_sweep,
    speedrun,
    split_sweep,
)
from care.reproduce.trial import Outcome, Trial
from care.suggestions import did_you_mean


@dataclass(frozen=True)
class Reproduction:
    """A study: the `trials` that a figure or table needs at a scale, and how to `present` their outcomes."""

    name: str
    shows: str
    trials: Callable[[Scale], list[Trial]]
    present: Callable[[Sequence[Outcome]], Presentation]


STUDIES = {
    study.name: study
    for study in (
        Reproduction("linear-probe", "accuracy of linear probes", linear_probe.trials, linear_probe.present),
        Reproduction("ablation", "ablation of the losses", ablation.trials, ablation.present),
        Reproduction("wahba", "W_f of 20 augmentations", pairs.on_cifar10, pairs.present_wahba),
        Reproduction(
            "relative-equivariance", "γ_f over training", pairs.on_cifar10, pairs.present_relative_equivariance
        ),
        Reproduction("circle", "angles on the circle", pairs.on_the_circle, pairs.present_circle),
        Reproduction("retrieval", "neighbors of jittered queries", pairs.on_flowers, pairs.present_retrieval),
        Reproduction("composition", "rotations of compositions", pairs.on_cifar10, pairs.present_composition),
        Reproduction("lambda-sweep", "λ, chunks, kinds of views", lambda_sweep.trials, lambda_sweep.present),
        Reproduction("proteins", "rotated point clouds", proteins.trials, proteins.present),
        Reproduction("equal-compute", "not in the paper: equal views", equal_compute.trials, equal_compute.present),
        Reproduction("decoding", "not in the paper: R² decoded from features", decoding.trials, decoding.present),
        Reproduction("keeping-color", "not in the paper: keeping color", keeping_color.trials, keeping_color.present),
        Reproduction("split-sweep", "not in the paper: κ of split embeddings", split_sweep.trials, split_sweep.present),
        Reproduction(
            "recipe-sweep", "not in the paper: recipes at equal views", recipe_sweep.trials, recipe_sweep.present
        ),
        Reproduction("peers", "not in the paper: related methods", peers.trials, peers.present),
        Reproduction(
            "peers-cifar100",
            "not in the paper: related methods on CIFAR-100",
            peers_cifar100.trials,
            peers_cifar100.present,
        ),
        Reproduction(
            "peers-flowers",
            "not in the paper: related methods on flowers, on a CPU",
            peers_flowers.trials,
            peers_flowers.present,
        ),
        Reproduction(
            "peers-weights",
            "not in the paper: weights of related methods",
            peers_weights.trials,
            peers_weights.present,
        ),
        Reproduction("speedrun", "not in the paper: minutes to 90 %", speedrun.trials, speedrun.present),
        Reproduction("groups", "not in the paper: other bilinear forms", groups.trials, groups.present),
    )
}


def study_named(name: str) -> Reproduction:
    """The study called `name`."""
    if name not in STUDIES:
        hint = did_you_mean(name, STUDIES) or f"; there are {', '.join(STUDIES)}"
        raise ValueError(f"no study is called {name!r}{hint}")
    return STUDIES[name]
