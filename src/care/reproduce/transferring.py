"""The features of a trial on other data sets: measured where these are prepared, each embedded once."""

from collections.abc import Iterable

from care.data.catalogue import DATA_SETS, Generated
from care.data.registry import known_splits, prepared_splits
from care.evaluate import EvaluationSetup, Transfer, measure_transfer
from care.evaluate.effects.families import Watch
from care.evaluate.embedder import features_of
from care.evaluate.transfer.downstream import load_downstream
from care.evaluate.transfer.few_shot import TASKS
from care.reproduce.trial import Outcome, Trial

# The splits of the protocol: to fit to, to choose the penalty on, to test on.
SPLITS = {"train", "val", "test"}


def is_there(data: str) -> bool:
    """Whether all splits that the transfer to a data set takes are prepared, or generated."""
    if isinstance(DATA_SETS.get(data), Generated):
        return True
    needed = SPLITS & set(known_splits(data))
    return bool(needed) and needed <= set(prepared_splits(data))


def not_there(trials: Iterable[Trial]) -> list[str]:
    """The data sets that trials ask for in vain."""
    return [data for data in dict.fromkeys(data for trial in trials for data in trial.transfer) if not is_there(data)]


def not_transferred(outcome: Outcome) -> list[str]:
    """The data sets that its trial asks for, that are there, and that it was not measured on."""
    measured = {} if outcome.transfer is None else outcome.transfer.data
    return [data for data in outcome.trial.transfer if data not in measured and is_there(data)]


def measured_transfer(outcome: Outcome, setup: EvaluationSetup, watch: Watch) -> Transfer:
    """The transfer of a trial to all that it asks for and that is there: all labels, and few-shot tasks.

    Shares of the labels are left out: they are six more regressions for each data set.
    """
    there = [load_downstream(data) for data in outcome.trial.transfer if is_there(data)]
    return measure_transfer(
        lambda images: features_of(setup.embed(images)),
        there,
        setup.policy,
        tasks=TASKS,
        few_labels=False,
        name=outcome.trial.slug,
        device=setup.device,
        watch=watch,
    )
