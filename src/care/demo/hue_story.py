"""What the short demo says: a headline, three numbers in words, and a page that opens with the pictures."""

from care import __version__
from care.demo.hue import HueDemo, Kept
from care.demo.lessons import KEEP_HUE, SIMCLR
from care.evaluate import paired_difference
from care.evaluate.comparison.paired import Difference
from care.evaluate.comparison.quantities import Quantity
from care.evaluate.observer import BACKBONE
from care.report import neighbors_figure, training_figure
from care.report.page import Page, Picture, Points, Section, Table

# What is said of a number in the table that folds.
MEANINGS = {
    "class": "How many test pictures a logistic regression on the frozen features gets right; chance is 10 %.",
    "hue": "R² of the hue, decoded from the features by a linear regression: 1 is exact, 0 is not at all.",
    "hue of neighbors": "How far the hues of the five nearest pictures are from that of a recolored one, as a fraction "
    "of the hue circle.",
    "kNN": "How many test pictures are of the class that the 20 most similar training pictures vote for.",
    "class of neighbors": "How many of the five nearest pictures are of the class of the recolored one.",
}
LEAD = (
    "Both encoders were just trained here, without labels, on views of generated shapes whose hue, too, is drawn at "
    "random. Each picture on the left was recolored; beside it are the five test pictures whose features are nearest."
)


def headline(demo: HueDemo) -> str:
    """The story in a sentence, as far as the numbers tell it."""
    hue, price = _gain(demo, "hue of neighbors"), _gain(demo, "class")
    if not hue.low > 0 or not _gain(demo, "hue").low > 0:
        return "Not seen with this seed: that --keep hue keeps more of the hue than SimCLR."
    if price.high < 0:
        return f"SimCLR forgets the hue. With --keep hue it is kept, for {-100 * price.difference:.1f} points of accuracy."
    return "SimCLR forgets the hue. With --keep hue it is kept, at the same accuracy."


def sentences(demo: HueDemo) -> list[str]:
    """Class, hue and neighbors: a number of each encoder, in words."""
    a, b = (demo.encoders[name] for name in (SIMCLR, KEEP_HUE))
    (right, kept), (r2, kept_r2), (off, kept_off) = (
        (_value(a, name), _value(b, name)) for name in ("class", "hue", "hue of neighbors")
    )
    return [
        f"Class: read off {100 * right:.1f} % of {demo.tested:,} test pictures with SimCLR, {100 * kept:.1f} % {KEEP_HUE}; "
        f"{_price(_gain(demo, 'class'))}.",
        f"Hue: decoded from the features with an R² of {r2:.2f} with SimCLR, {kept_r2:.2f} {KEEP_HUE}; 1 is exact, 0 is "
        "not at all.",
        f"Neighbors: {360 * off:.0f}° off the hue of a recolored picture with SimCLR, {360 * kept_off:.0f}° {KEEP_HUE}; "
        f"random pictures are {360 * a.chance:.0f}° off.",
    ]


def shortened(demo: HueDemo) -> str:
    """What was left out to be done in time; empty where nothing was."""
    if demo.share == 1:
        return ""
    return f"This computer is slow or busy: the encoders learned from {demo.share:.0%} of the pictures, and know less."


def hue_page(demo: HueDemo, seconds: float) -> Page:
    """The page of a finished demo, which took so many seconds."""
    logs = {name: kept.log for name, kept in demo.encoders.items()}
    curves = Picture(training_figure(logs), "Losses and measures of both encoders over the epochs.", "After every epoch.")
    sections = [
        Section("", [_gallery(demo), Points([("•", sentence) for sentence in sentences(demo)])]),
        Section("How sure is this?", [table(demo), *_caveats(demo)], folded=True),
        Section("How training went", [curves], folded=True),
        Section("What to do next", [NEXT], folded=True),
    ]
    config = demo.encoders[SIMCLR].config
    trained = f"{config.model}, {config.epochs} epochs of {config.limit:,} pictures, seed {config.seed}"
    footer = f"Made by care demo, version {__version__}, in {seconds:.0f} seconds: {trained}. {shortened(demo)}".strip()
    return Page(headline(demo), LEAD, sections, footer)


NEXT = (
    "care train --data shapes --keep hue trains the same for longer; care train --data FOLDER --keep hue, with your "
    "own pictures. care explore care-demo/shapes-simclr care-demo/shapes-with-keep-hue lets you recolor by hand. "
    "care demo --full trains six encoders, on point clouds too, and checks what the paper says of CARE."
)


def table(demo: HueDemo) -> Table:
    """Every number of both encoders, and between what their difference is at 95 %."""
    rows = [
        [name, *(_cell(kept.numbers[name]) for kept in demo.encoders.values()), _interval(demo, name)]
        for name in MEANINGS
    ]
    return Table(["", *demo.encoders, "difference, at 95 %"], rows, "", MEANINGS)


def _gallery(demo: HueDemo) -> Picture:
    pictures = {name: kept.pictures for name, kept in demo.encoders.items()}
    first = next(iter(pictures.values()))
    figure = neighbors_figure(
        first["queries"],
        first["jittered"],
        {name: drawn[BACKBONE] for name, drawn in pictures.items()},
        right={name: drawn[f"{BACKBONE}/right"] for name, drawn in pictures.items()},
    )
    alt = "Pictures, the same recolored, and the five nearest test pictures of each by the features of both encoders."
    return Picture(figure, alt)


def _caveats(demo: HueDemo) -> list[str]:
    return [
        "Intervals are over test pictures, for these two encoders: others, of another --seed, differ by more. The docs "
        "have the mean over five seeds.",
        "What is kept must show in distances, too: neighbors are of the same hue, and therefore of the same class less "
        "often. A classifier that is fitted to the features does not mind.",
    ]


def _gain(demo: HueDemo, name: str) -> Difference:
    """How much better --keep hue is than SimCLR."""
    a, b = (demo.encoders[encoder].numbers[name] for encoder in (SIMCLR, KEEP_HUE))
    assert a.units is not None and b.units is not None
    return paired_difference(b.units, a.units) if a.better == "lower" else paired_difference(a.units, b.units)


def _price(gain: Difference) -> str:
    between = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f} points"
    if gain.low <= 0 <= gain.high:
        return f"no difference that these can show ({between})"
    return f"{'better' if gain.low > 0 else 'worse'} by {100 * abs(gain.difference):.1f} points ({between})"


def _value(kept: Kept, name: str) -> float:
    return float(kept.numbers[name].value or 0)


def _cell(quantity: Quantity) -> str:
    return f"{100 * (quantity.value or 0):.1f} %" if quantity.percent else str(quantity)


def _interval(demo: HueDemo, name: str) -> str:
    a, b = (demo.encoders[encoder].numbers[name] for encoder in (SIMCLR, KEEP_HUE))
    assert a.units is not None and b.units is not None
    found = paired_difference(a.units, b.units)
    low, high = (f"{100 * end:+.1f}" if a.percent else f"{end:+.3f}" for end in (found.low, found.high))
    return f"{low} to {high}{' points' if a.percent else ''}"
