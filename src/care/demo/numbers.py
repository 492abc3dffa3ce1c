"""The table of the full demo: a row per encoder, and a sentence that explains each column."""

from dataclasses import dataclass

from care.demo.running import Found, Shown
from care.evaluate.comparison.quantities import ACTED_ON, Quantity, find_quantity
from care.report.page import Table


@dataclass(frozen=True)
class Column:
    """A column of the table: where an evaluation holds its number, and a sentence on its meaning."""

    title: str
    group: str
    quantity: str
    meaning: str

    @property
    def plain_title(self) -> str:
        """The title for a terminal, with ordinary spaces."""
        return self.title.replace("\N{NO-BREAK SPACE}", " ")


LOGISTIC = Column(
    "logistic regression\N{NO-BREAK SPACE}↑",
    "classes",
    "linear probe (tuned)",
    "How many test samples a logistic regression on the frozen features gets right, with the penalty that is best on "
    "held-out training samples; chance is 10 %.",
)
KNN = Column(
    "kNN\N{NO-BREAK SPACE}↑",
    "classes",
    "kNN, k = 20",
    "How many test samples are of the class that the 20 most similar training samples vote for; chance is 10 %.",
)
HUE = Column(
    "hue R²\N{NO-BREAK SPACE}↑",
    "backbone",
    "R² of the factor hue",
    "R² of the hue of a shape, decoded from the features by a linear regression: 1 is exact, 0 is not at all.",
)
DISPLACEMENT = Column(
    "displacement",
    ACTED_ON,
    "displacement",
    "How far an augmentation moves an embedding on the unit sphere: 0 is invariant, 2 is the opposite point.",
)
HELDOUT = Column(
    "held-out ratio\N{NO-BREAK SPACE}↓",
    ACTED_ON,
    "held-out ratio",
    "The squared error that the best rotation would leave on new samples, estimated from these, relative to no "
    "rotation: 0 means that the augmentation is exactly a rotation, 1 that a rotation explains nothing.",
)
COMPOSITION = Column(
    "composition error\N{NO-BREAK SPACE}↓",
    ACTED_ON,
    "composition error",
    "The held-out ratio of two augmentations in a row, for the product of their rotations.",
)
GAMMA = Column(
    "γ_f\N{NO-BREAK SPACE}↓",
    ACTED_ON,
    "γ_f",
    "The paper's relative equivariance: how much an augmentation changes the angles between embeddings, relative to "
    "how far it moves them. It falls when augmentations act as rotations, but also when everything moves far.",
)
WAHBA = Column(
    "W_f\N{NO-BREAK SPACE}↓",
    ACTED_ON,
    "W_f",
    "The paper's Wahba error: the distance that remains after the best rotation, over all samples together. It also "
    "falls when nothing moves, and grows with the number of samples.",
)

# Not in the table: the claims need them.
COLORS = Column(
    "held-out ratio, color", ACTED_ON, "held-out ratio, color", "The held-out ratio under color jitter alone."
)

COLUMNS = (LOGISTIC, KNN, HUE, DISPLACEMENT, HELDOUT, COMPOSITION, GAMMA, WAHBA)


def value(shown: Shown, column: Column) -> Quantity | None:
    """The number of a column, if it was measured for this encoder."""
    return find_quantity(shown.evaluation, column.group, column.quantity)


def named(name: str, shown: Shown) -> str:
    """How an encoder was trained, with its λ where it has one."""
    weight = shown.config.flat().get("care_weight")
    return f"{name}, λ = {weight:g}" if weight else name


def table(found: Found) -> Table:
    """All encoders on all data sets."""
    rows = [
        [f"{data}: {named(name, shown)}", *(_cell(value(shown, column)) for column in COLUMNS)]
        for data, encoders in found.items()
        for name, shown in encoders.items()
    ]
    about = next(iter(next(iter(found.values())).values())).evaluation.record["about"]
    caption = f"Measured on {about['test_images']:,} test samples, mean over {about['augmentations']} augmentations."
    return Table(["trained with", *(c.title for c in COLUMNS)], rows, caption, {c.title: c.meaning for c in COLUMNS})


def tall_tables(found: Found) -> list[Table]:
    """The same as a narrow table per data set: encoders side by side, a line per measure."""
    return [
        Table(
            [data, *(named(name, shown) for name, shown in encoders.items())],
            [[column.plain_title, *(_cell(value(shown, column)) for shown in encoders.values())] for column in COLUMNS],
        )
        for data, encoders in found.items()
    ]


def _cell(quantity: Quantity | None) -> str:
    if quantity is None or quantity.value is None:
        return "–"
    return f"{100 * quantity.value:.1f} %" if quantity.percent else str(quantity)
