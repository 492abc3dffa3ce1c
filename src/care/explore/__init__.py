"""A local page on which a picture is augmented by hand, with the nearest neighbors of f(x), f(a(x)) and R(θ) f(x).

gallery = Gallery([build_index("mine", embedder, rotation)], k=8)
gallery.answer(3, {"hue": 0.2})     # the neighbors of f(x), f(a(x)) and R(θ) f(x)
ExploreServer().serve(gallery)      # the same for a browser, until Ctrl-C
"""

from care.explore.gallery import Gallery, check_k
from care.explore.index import Index, LazyIndex, build_index, check_rotation
from care.explore.photos import read_photo
from care.explore.question import SLIDERS, Question, read_question
from care.explore.server import ExploreServer

__all__ = [
    "SLIDERS",
    "ExploreServer",
    "Gallery",
    "Index",
    "LazyIndex",
    "Question",
    "build_index",
    "check_k",
    "check_rotation",
    "read_photo",
    "read_question",
]
