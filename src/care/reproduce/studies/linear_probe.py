"""Top-1 accuracy of linear probes on every data set, with and without the equivariance loss."""

from collections.abc import Sequence
from typing import Any

from care.report import bar_figure
from care.reproduce.paper import PROBES, paper_probe
from care.reproduce.presentation import PROBE, Presentation, by_label, compared, measured_table, values
from care.reproduce.scales import Scale
from care.reproduce.trial import Outcome, Trial

DATA = tuple(PROBES)
PAIRS = (("SimCLR", "CARE"), ("MoCo-v2", "CARE-MoCo-v2"))


def settings(scale: Scale, data: str) -> dict[str, dict[str, Any]]:
    """The settings of each label on a data set."""
    care, moco = scale.care(data), {"method": "mocov2", "temperature": 0.2 if data == "imagenet100" else 0.1}
    return {"SimCLR": {}, "CARE": care, "MoCo-v2": moco, "CARE-MoCo-v2": {**moco, **scale.care(data, "mocov2")}}


def trials(scale: Scale) -> list[Trial]:
    """Every method on every data set; at the smoke scale, on one data set."""
    return [
        trial
        for data in (DATA if scale.instead is None else DATA[:1])
        for label, chosen in settings(scale, data).items()
        for trial in scale.trials(_named(scale.instead or data, label), data, **chosen)
    ]


def present(outcomes: Sequence[Outcome]) -> Presentation:
    """The table, with a column of the paper's numbers, and the paper's bar plot."""
    header, rows = measured_table(outcomes)
    groups, beside = by_label(outcomes), header.index("linear probe (paper) %") + 1
    header.insert(beside, "the paper, ResNet-50")
    for row in rows:
        row.insert(beside, paper_probe(*row[0].split(": ")))
    bars = {label: [100 * value for value in values(group, PROBE)] for label, group in groups.items()}
    papers = {label: _paper(label) for label in groups}
    remarks = [
        compared(outcomes, _named(data, base), _named(data, care), PROBE, f"{data}, linear probe (paper)")
        for data in dict.fromkeys(label.split(": ")[0] for label in groups)
        for base, care in PAIRS
        if {_named(data, base), _named(data, care)} <= set(groups)
    ]
    return Presentation(
        header, rows, {"linear-probe": bar_figure(bars, papers, "linear probe (paper), top-1 %")}, remarks
    )


def _named(data: str, label: str) -> str:
    return f"{data}: {label}"


def _paper(label: str) -> float | None:
    data, name = label.split(": ")
    found = PROBES.get(data, {}).get(name)
    return None if found is None else found[0]
