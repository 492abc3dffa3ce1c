"""Transfer of a trial's features to other data sets: measured if these are prepared, each embedded once."""

from collections.abc import Iterable

from care.data.catalogue import DATA_SETS, Generated
from care.data.registry import known_splits, prepared_splits
from care.evaluate import EvaluationSetup, Transfer, measure_transfer
from care.evaluate.embedder import features_of
from care.evaluate.transfer.downstream import load_downstream
from care.evaluate.transfer.few_shot import TASKS
from care.progress import ProgressCallback
from care.reproduce.trial import Outcome, Trial

# The splits of the protocol: to fit on, to choose the penalty on, to test on.
SPLITS = {"train", "val", "test"}


def is_prepared(data: str) -> bool:
    """Whether all splits that the transfer to a data set needs are prepared, or generated."""
    if isinstance(DATA_SETS.get(data), Generated):
        return True
    needed = SPLITS & set(known_splits(data))
    return bool(needed) and needed <= set(prepared_splits(data))


def unprepared_data(trials: Iterable[Trial]) -> list[str]:
    """The data sets that trials ask for but that are not prepared."""
    wanted = dict.fromkeys(data for trial in trials for data in trial.transfer)
    return [data for data in wanted if not is_prepared(data)]


def missing_transfers(outcome: Outcome) -> list[str]:
    """The data sets that the trial asks for and that are prepared, but on which it was not measured yet."""
    measured = {} if outcome.transfer is None else outcome.transfer.data
    return [data for data in outcome.trial.transfer if data not in measured and is_prepared(data)]


def measured_transfer(outcome: Outcome, setup: EvaluationSetup, progress: ProgressCallback) -> Transfer:
    """The transfer of a trial to the prepared data sets that it asks for, with all labels and in few-shot tasks.

    Shares of the labels are left out: they would take six more regressions for each data set.
    """
    downstreams = [load_downstream(data) for data in outcome.trial.transfer if is_prepared(data)]
    return measure_transfer(
        lambda images: features_of(setup.embed(images)),
        downstreams,
        setup.policy,
        tasks=TASKS,
        few_labels=False,
        name=outcome.trial.slug,
        device=setup.device,
        progress=progress,
    )
