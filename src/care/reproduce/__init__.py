"""`care reproduce NAME`: reproduce figures and tables of the paper, and run further studies."""

from care.reproduce.presentation import marked
from care.reproduce.runner import Runner, run_trials
from care.reproduce.scales import SCALES, Scale, scale_named
from care.reproduce.studies import STUDIES, Reproduction, study_named
from care.reproduce.transferring import unprepared_data
from care.reproduce.trial import Outcome, Trial
from care.reproduce.writing import write_reproduction

__all__ = [
    "SCALES",
    "STUDIES",
    "Outcome",
    "Reproduction",
    "Runner",
    "Scale",
    "Trial",
    "marked",
    "run_trials",
    "scale_named",
    "study_named",
    "unprepared_data",
    "write_reproduction",
]
