"""What the short demo says: a headline, three numbers in words, and a page that opens with the pictures."""

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

# What the rows of the table mean.
MEANINGS = {
    "class": "How many test pictures a logistic regression on the frozen features gets right; chance is 10 %.",
    "hue": "R² of the hue, decoded from the embedding by a linear regression: 1 is exact, 0 is not at all.",
    "hue of neighbors": "How far the hues of the five nearest pictures, by the embedding, are from that of a recolored "
    "one, as a fraction of the hue circle.",
    "hue, features": "R² of the hue, decoded from the features that the embedding is made of: they forget less.",
    "kNN, features": "How many test pictures are of the class that the 20 nearest training pictures vote for.",
    "class of neighbors": "How many of the five nearest pictures are of the class of the recolored one.",
}
FORGOTTEN = 0.5  # of the hue distance of random pictures: neighbors that are further off have no color in common
UNDECIDED = 0.03  # of accuracy: what may be lost by as much is not called the same

LEAD = (
    "Both encoders were just trained here, without labels, on views of generated shapes whose hue, too, is drawn at "
    "random: SimCLR, as is usual, and SimCLR with --keep hue. Each picture on the left was recolored; beside it are "
    "the five test pictures that the encoder takes for most alike."
)


def headline(demo: HueDemo) -> str:
    """The story in a sentence, as far as the numbers tell it."""
    simclr, price = demo.encoders[SIMCLR], _gain(demo, "class")
    if not (_gain(demo, "hue").low > 0 and _gain(demo, "hue of neighbors").low > 0):
        return f"Not seen with this seed: that an encoder {KEEP_HUE} keeps more of it than SimCLR."
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
    """What was left out to be done in time; empty where nothing was."""
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
    "this page. care demo --full trains six encoders, of point "
    "clouds too, and checks what the paper says of CARE."
)


def table(demo: HueDemo) -> Table:
    """Every number of both encoders, and between what their difference is at 95 %."""
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
        "Intervals are over test pictures, for these two encoders: others, of another --seed, differ by more. "
        "docs/demo.md has several seeds.",
        "What is kept must show in distances, too: neighbors are of the same hue, and therefore of the same class less "
        "often. A classifier that is fitted to the features does not mind.",
    ]


def _gain(demo: HueDemo, name: str) -> Difference:
    """How much better it is with --keep hue than with SimCLR."""
    change = _change(demo, name)
    if demo.encoders[SIMCLR].numbers[name].better == "higher":
        return change
    return replace(change, difference=-change.difference, low=-change.high, high=-change.low)


def _change(demo: HueDemo, name: str) -> Difference:
    """How much more it is, paired by picture."""
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
