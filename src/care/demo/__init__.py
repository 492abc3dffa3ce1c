"""`care demo`: what equivariance is good for, seen without data and without a GPU.

Encoders are trained on generated data by the same functions as `care train`, and measured by those of `care evaluate`.
The conclusions follow from the numbers. The short demo (`demonstrate_hue`) trains two encoders of pictures, the full
one (`demonstrate`) six, of pictures and of 3-D point clouds, and checks the paper's claims.
"""

from care.demo.claims import Claim, Verdict, judge
from care.demo.hue import HueDemo, Kept, demonstrate_hue
from care.demo.hue_story import headline, hue_page, sentences, shortened
from care.demo.lessons import HUE, LESSONS, MEASURES
from care.demo.numbers import COLUMNS, tall_tables
from care.demo.running import demonstrate
from care.demo.story import story, verdicts

__all__ = [
    "COLUMNS",
    "HUE",
    "LESSONS",
    "MEASURES",
    "Claim",
    "HueDemo",
    "Kept",
    "Verdict",
    "demonstrate",
    "demonstrate_hue",
    "headline",
    "hue_page",
    "judge",
    "sentences",
    "shortened",
    "story",
    "tall_tables",
    "verdicts",
]
