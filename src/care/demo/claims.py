"""The paper's claims about CARE, and whether the measured numbers show them."""

import math
from dataclasses import dataclass
from typing import Literal

from care.demo.lessons import SPLIT
from care.demo.numbers import COLORS, COMPOSITION, GAMMA, HELDOUT, HUE, LOGISTIC, Column
from care.evaluate import paired_difference
from care.evaluate.comparison.quantities import Quantity
from care.tables import number

NEARLY_EXACT = 0.1  # of the squared error without a rotation
UNSURE = 0.02  # a number without an interval must differ by more, which is about the standard error of an R² here


@dataclass(frozen=True)
class Claim:
    """A claim about a column of the table, for CARE or the encoder `of`, in words and as a condition."""

    column: Column
    words: str
    demand: Literal["halved", "better", "not worse", "nearly exact"]
    of: str = "CARE"


@dataclass(frozen=True)
class Verdict:
    """Whether the numbers show a claim, in a sentence. None: not significant, or there is no number."""

    claim: Claim
    seen: bool | None
    sentence: str

    @property
    def mark(self) -> str:
        """The verdict as one character."""
        return {True: "✓", False: "✗", None: "?"}[self.seen]


CLAIMS = {
    "shapes": (
        Claim(GAMMA, "γ_f is at most half of SimCLR's", "halved"),
        Claim(HELDOUT, "the held-out ratio is lower", "better"),
        Claim(HUE, "the hue of a shape is decoded better from the features", "better"),
        Claim(LOGISTIC, "the logistic regression is not worse", "not worse"),
        Claim(HUE, "with a split embedding, the hue is decoded better from the features", "better", SPLIT),
        Claim(COLORS, "its held-out ratio under color jitter is at most half of SimCLR's", "halved", SPLIT),
        Claim(LOGISTIC, "with a split embedding, the logistic regression is not worse", "not worse", SPLIT),
    ),
    "chains": (
        Claim(HELDOUT, f"a rotation is nearly exact: the held-out ratio is below {NEARLY_EXACT}", "nearly exact"),
        Claim(COMPOSITION, f"compositions hold: the composition error is below {NEARLY_EXACT}", "nearly exact"),
        Claim(GAMMA, "γ_f is at most half of SimCLR's", "halved"),
        Claim(LOGISTIC, "the logistic regression is not worse", "not worse"),
        Claim(HELDOUT, "with a split embedding, a rotation is nearly exact", "nearly exact", SPLIT),
        Claim(LOGISTIC, "with a split embedding, the logistic regression is not worse", "not worse", SPLIT),
    ),
}


def judge(claim: Claim, a: Quantity | None, b: Quantity | None) -> Verdict:
    """Compare a of SimCLR with b of the other encoder, with a 95 % interval if both are means over samples."""
    if a is None or b is None or not _known(a) or not _known(b):
        return Verdict(claim, None, f"No verdict: {claim.words}. There is no number to compare.")
    seen = _seen(claim, a, b)
    words = {True: "Seen", False: "Not seen", None: "Not significant"}[seen]
    numbers = f"{_text(a)} with SimCLR, {_text(b)} with {claim.of}{_significance(a, b)}"
    return Verdict(claim, seen, f"{words}: {claim.words}. {numbers}.")


def _seen(claim: Claim, a: Quantity, b: Quantity) -> bool | None:
    if claim.demand == "nearly exact":
        return float(b.value or 0) < NEARLY_EXACT
    difference = float(b.value or 0) - float(a.value or 0)
    if claim.demand == "not worse" and (difference >= 0 if b.better == "higher" else difference <= 0):
        return True
    low, high = _gain(a, b, 0.5 if claim.demand == "halved" else 1.0)
    return None if low <= 0 <= high else low > 0


def _gain(a: Quantity, b: Quantity, share: float) -> tuple[float, float]:
    """The 95 % interval by which CARE beats this share of SimCLR's number; ± UNSURE around it if none is known."""
    difference = float(b.value or 0) - share * float(a.value or 0)
    low, high = _interval(a, b, share) or (difference - UNSURE, difference + UNSURE)
    return (-high, -low) if a.better == "lower" else (low, high)


def _interval(a: Quantity, b: Quantity, share: float = 1.0) -> tuple[float, float] | None:
    """The 95 % interval of b − share · a, paired sample by sample or augmentation by augmentation."""
    if a.units is None or b.units is None or len(a.units) < 2:
        return None
    difference = paired_difference(share * a.units, b.units)
    return None if math.isnan(difference.low) else (difference.low, difference.high)


def _known(quantity: Quantity) -> bool:
    return quantity.value is not None and math.isfinite(quantity.value)


def _text(quantity: Quantity) -> str:
    return f"{100 * quantity.value:.1f}\N{NO-BREAK SPACE}%" if quantity.percent else number(quantity.value)  # type: ignore[operator, arg-type]


def _significance(a: Quantity, b: Quantity) -> str:
    interval = _interval(a, b)
    if interval is None:
        return f"; differences below {UNSURE} are not significant"
    low, high = (f"{100 * end:+.1f}" if a.percent else f"{end:+.2g}" for end in interval)
    return f"; the difference is between {low} and {high}{' points' if a.percent else ''} at 95 %"
