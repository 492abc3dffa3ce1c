"""The results of transfer: numbers, a table, and the data for paired comparisons."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from care.evaluate.comparison.quantities import Quantity
from care.evaluate.records import load_record, save_record
from care.evaluate.transfer.labels import class_weights
from care.tables import paragraphs, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORD, ARRAYS = "transfer.json", "transfer.safetensors"
TRANSFER_TO = "transfer to "  # prefix of a data set's name in the group of its quantities
IN_WORDS = {"top1": "top-1", "mean_per_class": "mean per class"}

Score = tuple[float, float | None]  # an accuracy, and its standard deviation or half of its interval


@dataclass(frozen=True, eq=False)
class Transfer:
    """The transfer of one model. `record` is what `transfer.json` holds; `arrays` say which test images were classified
    correctly, and give the accuracy in every few-shot task."""

    record: Mapping[str, Any]
    arrays: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.record["about"]["model"])

    @property
    def data(self) -> Mapping[str, Any]:
        """The results by data set."""
        return self.record["data"]

    def scores(self, data: str) -> dict[str, Score]:
        """The customary accuracies on one data set, by the labels fitted to, with ± if there are several.

        ± is the standard deviation over three draws of the labels, and half of the 95 % interval over few-shot tasks.
        """
        found, measure = self.data[data], self.data[data]["customary"]
        scores: dict[str, Score] = {"all labels": (found["all_labels"][measure], None)}
        for share, few in reversed(found.get("few_labels", {}).items()):
            scores[f"{share} of the labels"] = few[f"{measure}_mean"], few[f"{measure}_std"]
        for shots, few in reversed(found.get("few_shot", {}).items()):
            if "logistic" in few:
                scores[f"5-way {shots}-shot"] = few["logistic"]["mean"], few["logistic"]["interval"]
        return scores

    def left_out(self) -> list[str]:
        """Why few-shot tasks are missing: one sentence for each data set concerned."""
        found: dict[str, str] = {}
        for data, measured in self.data.items():
            for few in measured.get("few_shot", {}).values():
                if "left_out" in few:
                    found.setdefault(data, f"{data}: {few['left_out']}")
        return list(found.values())

    def table(self) -> str:
        """The accuracies as text."""
        return transfer_table({self.name: self})

    def __str__(self) -> str:
        return self.table()

    def save(self, folder: str | Path) -> None:
        """Write `transfer.json` and the arrays into `folder`."""
        save_record(Path(folder), RECORD, ARRAYS, self.record, self.arrays)

    @classmethod
    def load(cls, folder: str | Path) -> "Transfer":
        """What `save` wrote; ValueError if any byte of it has changed."""
        return cls(*load_record(Path(folder), RECORD, ARRAYS, "transfer", "care transfer"))


def load_transfers(folders: Mapping[str, Path]) -> dict[str, Transfer]:
    """The transfers in these folders, or in a folder `transfer` inside; ValueError if they cannot be compared."""
    found = {}
    for name, folder in folders.items():
        inside = folder / "transfer" if (folder / "transfer" / RECORD).exists() else folder
        if (inside / RECORD).exists():
            found[name] = Transfer.load(inside)
    for one in found.values():
        if different := _unlike(next(iter(found.values())), one):
            raise ValueError(f"these transfers were made with different settings: {'; '.join(different)}")
    return found


def _unlike(first: Transfer, other: Transfer) -> list[str]:
    """The settings in which two transfers differ but should agree, on the data sets they share."""
    records = [first.record["about"], other.record["about"]]
    pairs = [(name, *(record[name] for record in records)) for name in ("seed", "tasks")]
    for data in first.data.keys() & other.data.keys():
        counts = ("train_images", "validation_images", "test_images")
        pairs += [(f"{name} of {data}", first.data[data][name], other.data[data][name]) for name in counts]
    return [f"{name}: {a} for {first.name}, {b} for {other.name}" for name, a, b in pairs if a != b]


def transfer_table(transfers: Mapping[str, Transfer]) -> str:
    """A table with a row per data set and labels fitted to, and a column per model."""
    rows: list[list[str]] = []
    for data, found in next(iter(transfers.values())).data.items():
        scores = [one.scores(data) for one in transfers.values()]
        title = f"{data}: {found['classes']} classes, {IN_WORDS[found['customary']]}"
        rows.append([title, *[""] * len(transfers)])
        rows += [[f"  {row}", *(_cell(of_model[row]) for of_model in scores)] for row in scores[0]]
    note = "± standard deviation over draws of the labels; in few-shot tasks, 95 % interval over tasks of these images"
    note = "\n\n" + paragraphs([note])
    table = text_table("accuracy of frozen features on other data sets", ["", *transfers], rows)
    return table + note if any("±" in cell for row in rows for cell in row) else table


def transfer_figure_of(transfers: Mapping[str, Transfer]) -> "Figure":
    """The table as a picture."""
    from care.report import transfer_figure  # matplotlib takes a while to load

    panels: dict[str, dict[str, dict[str, Score]]] = {}
    for data, found in next(iter(transfers.values())).data.items():
        panel = panels.setdefault(f"{data} ({IN_WORDS[found['customary']]})", {})
        for name, one in transfers.items():
            for row, score in one.scores(data).items():
                panel.setdefault(row, {})[name] = score
    return transfer_figure(panels)


def transfer_quantities(transfer: Transfer) -> list[Quantity]:
    """Every accuracy with the images or tasks whose mean it is, so that two models can be paired."""
    return [quantity for data in transfer.data for quantity in _quantities(transfer, data)]


def _quantities(transfer: Transfer, data: str) -> Iterator[Quantity]:
    prefix = f"{data}/"
    arrays = {name.removeprefix(prefix): x for name, x in transfer.arrays.items() if name.startswith(prefix)}
    by_class = transfer.data[data]["customary"] == "mean_per_class"
    weights = class_weights(arrays["labels"]) if by_class else 1.0
    for row, (accuracy, _) in transfer.scores(data).items():
        what, _, kind = row.rpartition(" ")
        over: Literal["images", "tasks"]
        if kind.endswith("-shot"):
            units, over = arrays[f"{kind}/logistic"].double(), "tasks"
        else:
            correct = arrays["all" if row == "all labels" else what.removesuffix(" of the")].double()
            units, over = weights * correct.reshape(-1, correct.shape[-1]).mean(0), "images"
        yield Quantity(f"{TRANSFER_TO}{data}", row, accuracy, "higher", units, percent=True, over=over)


def _cell(score: Score) -> str:
    mean, spread = score
    return f"{100 * mean:.2f} %" if spread is None else f"{100 * mean:.2f} ± {100 * spread:.2f} %"
