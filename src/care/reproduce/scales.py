"""The scale of a reproduction: a smoke test of everything, an afternoon on one GPU, or as the paper did."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from care.evaluate import EvaluationSettings
from care.reproduce.trial import Trial
from care.train import Config, default_config
from care.train.recipes import EQUIVARIANT_DIM, PAPER_WEIGHTS, applicable, recipe

ScaleName = Literal["smoke", "small", "long", "deep", "paper"]

# λ of CARE at every scale but the paper's. For images, `lambda-sweep` chose it together with the constant learning
# rate, on validation images cut from the training split.
CHOSEN = 3.0
FOR_CLOUDS = 30.0
# All studies measure alike, since they share trials: the first study runs them. The 16 directions are the control for
# split embeddings, whose equivariant part has as many.
MEASURES = EvaluationSettings(projections=(EQUIVARIANT_DIM,))


@dataclass(frozen=True)
class Scale:
    """The settings that all studies of one scale share. `instead` replaces every data set of images."""

    name: ScaleName
    settings: dict[str, Any]
    measures: EvaluationSettings
    seeds: tuple[int, ...]
    instead: str | None = None

    def config(self, data: str, seed: int = 0, **chosen: Any) -> Config:
        """The paper's settings for a data set at this scale, with what was chosen in their place."""
        images = data != "chains"
        usual = {**self.settings, **({} if images else self._clouds())}
        where = self.instead if images and self.instead else data
        return default_config(where, **{**applicable(usual, chosen), "seed": seed, **chosen})

    def trials(self, label: str, data: str, **chosen: Any) -> list[Trial]:
        """The trial with every seed."""
        return [Trial(label, self.config(data, seed, **chosen), self.measures) for seed in self.seeds]

    def care(self, data: str, method: str = "simclr") -> dict[str, Any]:
        """The settings that turn a method into CARE: the paper's weight at the paper's scale, else ours."""
        if self.name != "paper" or data not in PAPER_WEIGHTS:
            return {"equivariance": "care", "care_weight": FOR_CLOUDS if data == "chains" else CHOSEN}
        theirs = recipe(f"{data}-care-{method}").flat()
        return {name: theirs[name] for name in ("equivariance", "care_weight", "chunks")}

    def _clouds(self) -> dict[str, Any]:
        """Point clouds have a network of their own, which is small at every scale."""
        return {"model": "deepset", "size": None, "embedding_dim": 16, "head_width": 64}


SMOKE = Scale(
    "smoke",
    {
        "model": "small_resnet", "size": 24, "embedding_dim": 16, "head_width": 32, "limit": 192, "epochs": 2,
        "batch_size": 32, "chunks": 4,
    },
    EvaluationSettings(images=60, augmentations=2, probe_epochs=2, seeds=1, projections=(EQUIVARIANT_DIM,)),
    seeds=(0, 1),
    instead="shapes",
)  # fmt: skip
SMALL = Scale(
    "small",
    {"model": "resnet18", "epochs": 100, "evaluate_every": 10},
    MEASURES,
    seeds=(0, 1, 2),
)
LONG = Scale("long", {**SMALL.settings, "epochs": 400, "schedule": "cooldown"}, MEASURES, seeds=(0,))
DEEP = Scale("deep", {**SMALL.settings, "model": "resnet50"}, MEASURES, seeds=(0,))
# The paper pretrained once: its deviations are over seeds of the probe.
PAPER = Scale("paper", {"evaluate_every": 10}, MEASURES, seeds=(0,))

SCALES: dict[str, Scale] = {scale.name: scale for scale in (SMOKE, SMALL, LONG, DEEP, PAPER)}


def scale_named(name: str) -> Scale:
    """The scale called `name`."""
    if name not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(get_args(ScaleName))}, got {name!r}")
    return SCALES[name]
