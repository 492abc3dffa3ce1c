"""`care demo`: the paper's claim without data and without a GPU.

Encoders are trained with SimCLR and with CARE, on pictures and on 3-D point clouds that are generated, by the same
functions as `care train`, and measured by those of `care evaluate`. What is then said about them follows from the
numbers.
"""

from care.demo.claims import Claim, Verdict, judge
from care.demo.lessons import LESSONS, MEASURES
from care.demo.numbers import COLUMNS, table
from care.demo.running import demonstrate
from care.demo.story import story, verdicts

__all__ = [
    "COLUMNS",
    "LESSONS",
    "MEASURES",
    "Claim",
    "Verdict",
    "demonstrate",
    "judge",
    "story",
    "table",
    "verdicts",
]
