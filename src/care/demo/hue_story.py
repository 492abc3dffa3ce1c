"""The report of the short demo: a headline, three numbers in words, and a page that opens with the pictures."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from care import __version__
from care.demo.hue import HueDemo, Kept
from care.demo.lessons import KEEP_HUE, SIMCLR
from care.evaluate import paired_difference
from care.evaluate.comparison.paired import Difference
from care.evaluate.comparison.quantities import Quantity
from care.evaluate.embedder import EMBEDDING
from care.report import neighbors_figure, training_figure
from care.report.page import Page, Picture, Points, Row, Section, Table

# Row of the table → what it means.
MEANINGS = {
    "class": "How many test pictures a logistic regression on the frozen features gets right; chance is 10 %.",
    "hue": "R² of the hue, decoded from the embedding by a linear regression: 1 is exact, 0 is not at all.",
    "hue of neighbors": "How far the hues of the five nearest pictures, by the embedding, are from that of a recolored "
    "one, as a fraction of the hue circle.",
    "hue, features": "R² of the hue, decoded from the features that the embedding is computed from: they forget less.",
    "kNN, features": "How many test pictures are of the class that the 20 nearest training pictures vote for.",
    "class of neighbors": "How many of the five nearest pictures are of the class of the recolored one.",
}
FORGOTTEN = 0.5  # of the hue distance of random pictures: neighbors further off have no color in common
UNDECIDED = 0.03  # of accuracy: if the interval allows such a loss, accuracy is called undecided

LEAD = (
    "Both encoders were just trained here, without labels, on augmented views of generated shapes; augmentations also "
    "change the hue. One is plain SimCLR, the other SimCLR with --keep hue. Each picture on the left was recolored; "
    "beside it are its five nearest neighbors among the test pictures, by that encoder."
)


def headline(demo: HueDemo) -> str:
    """The result in a sentence, as far as the numbers show it."""
    simclr, price = demo.encoders[SIMCLR], _gain(demo, "class")
    if not (_gain(demo, "hue").low > 0 and _gain(demo, "hue of neighbors").low > 0):
        return f"Not seen with this seed: that an encoder {KEEP_HUE} keeps more of the hue than SimCLR."
    forgotten = _value(simclr, "hue of neighbors") > FORGOTTEN * simclr.chance
    return f"SimCLR forgets {'' if forgotten else 'some of '}the hue; {KEEP_HUE} it is kept, {_cost(price)}."


def sentences(demo: HueDemo) -> list[str]:
    """Class, hue and neighbors: a number of each encoder, in words."""
    a, b = (demo.encoders[name] for name in (SIMCLR, KEEP_HUE))
    (right, kept), (r2, kept_r2), (off, kept_off) = (
        (_value(a, name), _value(b, name)) for name in ("class", "hue", "hue of neighbors")
    )
    return [
        f"Class: read off {100 * right:.1f} % of {demo.tested:,} test pictures with SimCLR, {100 * kept:.1f} % "
        f"{KEEP_HUE}; {_price(_gain(demo, 'class'))}.",
        f"Hue: decoded from the embedding with an R² of {r2:.2f} with SimCLR, {kept_r2:.2f} {KEEP_HUE}; 1 is exact, "
        "0 is not at all.",
        f"Neighbors: {360 * off:.0f}° off the hue of a recolored picture with SimCLR, {360 * kept_off:.0f}° "
        f"{KEEP_HUE}; random pictures are {360 * a.chance:.0f}° off.",
    ]


def shortened(demo: HueDemo) -> str:
    """A note if training was shortened to end in time, else empty."""
    if demo.share == 1:
        return ""
    share = f"{100 * demo.share:.0f} %"
    return f"This computer is slow or busy: the encoders learned from {share} of the pictures, and know less."


def hue_page(demo: HueDemo, seconds: float) -> Page:
    """The page of a finished demo, which took so many seconds."""
    logs = {name: kept.log for name, kept in demo.encoders.items()}
    curves = Picture(
        training_figure(logs), "Losses and measures of both encoders over the epochs.", "After every epoch."
    )
    sections = [
        Section("", [_gallery(demo), Points([("•", sentence) for sentence in sentences(demo)])]),
        Section("How sure is this?", [table(demo), *_caveats(demo)], folded=True),
        Section("How training went", [curves], folded=True),
        Section("What to do next", [NEXT], folded=True),
    ]
    config = demo.encoders[SIMCLR].config
    trained = (
        f"{config.model}, {config.epochs} epochs of {config.limit:,} pictures, seed {config.seed}, {_threads(demo)}"
    )
    footer = f"Made by care demo, version {__version__}, in {seconds:.0f} seconds: {trained}. {shortened(demo)}".strip()
    return Page(headline(demo), LEAD, sections, footer)


def _threads(demo: HueDemo) -> str:
    return f"{demo.threads} thread{'s' if demo.threads > 1 else ''}"


NEXT = (
    "Your own pictures, 90 or more: care train --data FOLDER/ --size 96 --batch-size 64 --epochs 100 --keep hue --out "
    "runs/mine, then care explore runs/mine. To recolor these by hand: care explore, with the two run folders beside "
    "this page. care demo --full trains six encoders, also on point clouds, and checks the paper's claims about CARE."
)


def table(demo: HueDemo) -> Table:
    """Every number of both encoders, and the 95 % interval of their difference."""
    rows = [
        [name, *(_cell(kept.numbers[name]) for kept in demo.encoders.values()), _interval(demo, name)]
        for name in MEANINGS
    ]
    return Table(["", *demo.encoders, "difference, at 95 %"], rows, "", MEANINGS)


def _gallery(demo: HueDemo) -> Row:
    return Row([_neighbors(name, kept.pictures) for name, kept in demo.encoders.items()])


def _neighbors(name: str, drawn: Mapping[str, Tensor]) -> Picture:
    found, right = {name: drawn[EMBEDDING]}, {name: drawn[f"{EMBEDDING}/right"]}
    figure = neighbors_figure(drawn["queries"], drawn["jittered"], found, right=right)
    return Picture(figure, f"Pictures, the same recolored, and the five nearest test pictures by the encoder: {name}.")


def _caveats(demo: HueDemo) -> list[str]:
    return [
        "Intervals are over test pictures, for these two encoders; encoders of another --seed differ by more. "
        "docs/demo.md has several seeds.",
        "A hue that is kept also affects distances: neighbors share the hue, and therefore less often the class. A "
        "classifier that is fitted to the features is not affected.",
    ]


def _gain(demo: HueDemo, name: str) -> Difference:
    """By how much --keep hue is better than SimCLR in this quantity."""
    change = _change(demo, name)
    if demo.encoders[SIMCLR].numbers[name].better == "higher":
        return change
    return replace(change, difference=-change.difference, low=-change.high, high=-change.low)


def _change(demo: HueDemo, name: str) -> Difference:
    """The quantity with --keep hue minus that with SimCLR, paired by picture."""
    a, b = (demo.encoders[encoder].numbers[name].units for encoder in (SIMCLR, KEEP_HUE))
    assert a is not None
    assert b is not None
    return paired_difference(a, b)


def _cost(gain: Difference) -> str:
    if gain.high < 0:
        return f"for {-100 * gain.difference:.1f} points of accuracy"
    return "at no cost that this run shows" if gain.low > -UNDECIDED else "and accuracy is undecided"


def _price(gain: Difference) -> str:
    if gain.low <= 0 <= gain.high:
        return f"no difference that these can show ({100 * gain.low:+.1f} to {100 * gain.high:+.1f} points)"
    nearer, further = sorted(100 * abs(end) for end in (gain.low, gain.high))
    word = "better" if gain.low > 0 else "worse"
    return f"{word} by {100 * abs(gain.difference):.1f} points ({nearer:.1f} to {further:.1f})"


def _value(kept: Kept, name: str) -> float:
    return float(kept.numbers[name].value or 0)


def _cell(quantity: Quantity) -> str:
    return f"{100 * (quantity.value or 0):.1f} %" if quantity.percent else str(quantity)


def _interval(demo: HueDemo, name: str) -> str:
    found, percent = _change(demo, name), demo.encoders[SIMCLR].numbers[name].percent
    low, high = (f"{100 * end:+.1f}" if percent else f"{end:+.3f}" for end in (found.low, found.high))
    return f"{low} to {high}{' points' if percent else ''}"
