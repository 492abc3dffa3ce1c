"""Accuracy against what is kept, a point per method, drawn from the trials that `results/` keeps."""

from pathlib import Path

from matplotlib.figure import Figure

from care.evaluate.comparison.quantities import Key
from care.report import tradeoff_figure
from care.reproduce.presentation import HUE, PROBE, TUNED, by_label, values
from care.reproduce.scales import scale_named
from care.reproduce.studies import STUDIES
from care.reproduce.studies.peers import HUE_BY_NETWORK, SIZES, SMALLER
from care.reproduce.trial import Outcome, find_outcome

# Studies of methods that keep something, the one with more methods first: its accuracy and what is kept, in words too.
SHOWN: dict[str, tuple[tuple[str, Key], tuple[str, Key]]] = {
    "peers": (("tuned probe", TUNED), ("R² of hue, by a network", HUE_BY_NETWORK)),
    "keeping-color": (("linear probe (paper)", PROBE), ("R² of hue, by a linear decoder", HUE)),
}
SCALE, BASE = "small", "SimCLR"
CLAIMS_END = "\n\n"


def drawn_study(results: Path) -> str:
    """The first of the studies of which a table is kept."""
    return next(name for name in SHOWN if (results / SCALE / name / f"{name}.json").exists())


def trade_off(results: Path) -> Figure:
    """A point per method of that study, at the mean of its seeds, with their standard deviation."""
    study = drawn_study(results)
    (up, accuracy), (across, kept) = SHOWN[study]
    groups = by_label(_outcomes(study, results / SCALE / "trials"))
    points = {name: (values(g, kept), [100 * value for value in values(g, accuracy)]) for name, g in groups.items()}
    sizes, smaller = (SIZES, SMALLER) if study == "peers" else ("", None)
    return tradeoff_figure(points, f"{across} → {sizes}", f"{up}, % →", BASE, smaller)


def _outcomes(study: str, trials: Path) -> list[Outcome]:
    found = (find_outcome(trial, trials, {}) for trial in STUDIES[study].trials(scale_named(SCALE)))
    return [outcome for outcome in found if outcome is not None]


def with_trade_off(page: str, claims: str, picture: str, results: Path) -> str:
    """The page with the picture below the table whose first line begins with `claims`."""
    before, header, after = page.partition(claims)
    table, end, rest = after.partition(CLAIMS_END)
    return before + header + table + end + _shown(picture, drawn_study(results)) + end + rest


def _shown(picture: str, study: str) -> str:
    (up, _), (across, _) = SHOWN[study]
    return (
        f"![Accuracy against the hue that is kept, a point per method]({picture})\n\n"
        f"*What is kept, and what it costs: {across}, and the {up}. Bars are standard deviations over seeds; a point "
        f"without bars is of one seed. Up and to the right of the dashed lines is better than {BASE} in both. A line "
        f"joins two sizes of training views. Drawn "
        f"from the trials of `care reproduce {study} --scale {SCALE}`.*"
    )
