"""A local page on which a person changes an image and watches what becomes its neighbors, and what a steering predicts.

gallery = Gallery([fill_bank("mine", observer, steering)], k=8)
gallery.answer(3, {"hue": 0.2})     # the neighbors of f(a(x)) and of R(θ) f(x)
ExploreServer().serve(gallery)      # the same for a browser, until Ctrl-C
"""

from care.explore.bank import Bank, fill_bank
from care.explore.gallery import Answer, Around, Gallery, Neighbor, Seen
from care.explore.question import SLIDERS, Question, Slider, read_question
from care.explore.server import ExploreServer

__all__ = [
    "SLIDERS",
    "Answer",
    "Around",
    "Bank",
    "ExploreServer",
    "Gallery",
    "Neighbor",
    "Question",
    "Seen",
    "Slider",
    "fill_bank",
    "read_question",
]
