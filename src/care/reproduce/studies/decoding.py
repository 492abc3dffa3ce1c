"""Not in the paper: which parameters of an augmentation can be decoded from features, with and without CARE."""

from collections.abc import Mapping, Sequence

from care.evaluate.comparison.quantities import ACTED_ON, Key
from care.evaluate.embedder import BACKBONE
from care.report import decoding_figure
from care.reproduce.presentation import Presentation, by_label, compared, measured_table, values
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

OUTPUTS = {BACKBONE: "backbone", ACTED_ON: "embedding (its equivariant part, where it is split)"}
PARAMETERS = ("crop area", "crop y", "crop aspect", "brightness", "contrast", "saturation", "hue", "gray", "blur")


def trials(scale: Scale) -> list[Trial]:
    """SimCLR and CARE with every seed."""
    return [*scale.trials("SimCLR", "cifar10"), *scale.trials("CARE", "cifar10", **scale.care("cifar10"))]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """R² of every parameter, from the features of an image and of the augmented image, by ridge regression."""
    header, rows = measured_table(outcomes, {f"R² of {name}": _r2(BACKBONE, name) for name in PARAMETERS})
    remarks = [
        compared(outcomes, "SimCLR", "CARE", _r2(BACKBONE, name), f"R² of {name}")
        for name in ("brightness", "contrast", "hue")
    ]
    return Presentation(header, rows, {"decoding": decoding_figure(r2_by_output(by_label(outcomes)))}, remarks)


def r2_by_output(groups: Mapping[str, Sequence[Outcome]]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """What `decoding_figure` draws: output → parameter → label → R² per seed."""
    return {
        title: {
            name: {label: values(group, _r2(output, name)) for label, group in groups.items()} for name in PARAMETERS
        }
        for output, title in OUTPUTS.items()
    }


def _r2(output: str, parameter: str) -> Key:
    return output, f"R² of {parameter}, linear"
