"""How fast training is, compared with the limit of the machine and with the usual way to write it."""

from collections.abc import Callable, Sequence

from care.bench.augmenting import measure_augmenting
from care.bench.loader import measure_loader
from care.bench.messages import Say, silent, under
from care.bench.methods import check_methods, measure_methods
from care.bench.photos import check_photos, measure_photos
from care.bench.results import Report, Table, headline
from care.bench.scaling import measure_scaling, measure_start
from care.bench.settings import Settings, default_settings
from care.bench.training import measure_training

PARTS: dict[str, Callable[[Settings, Say], Table]] = {
    "train": measure_training,
    "augment": measure_augmenting,
    "loader": measure_loader,
    "scaling": measure_scaling,
    "start": measure_start,
    "methods": measure_methods,
    "photos": measure_photos,
}
ALL = "all"
ON_REQUEST = ("methods", "photos")  # two dozen rows, and large networks: they take minutes, all other parts two

__all__ = [
    "ALL",
    "PARTS",
    "Table",
    "check_methods",
    "check_photos",
    "chosen_parts",
    "default_settings",
    "measure_speed",
]


def chosen_parts(names: Sequence[str]) -> list[str]:
    """The parts that `names` mean, in their usual order; none means all that are not on request."""
    for name in names:
        if name not in (*PARTS, ALL):
            raise ValueError(f"no part of the benchmark is called {name!r}; there are {', '.join(PARTS)} and {ALL}")
    wanted = set(names) or set(PARTS) - set(ON_REQUEST)
    return [part for part in PARTS if part in wanted or ALL in wanted]


def measure_speed(parts: Sequence[str], settings: Settings, say: Say = silent) -> Report:
    """Measure the named parts one after the other; `say` is told what begins."""
    say(headline(settings))
    return Report(settings, tuple(PARTS[part](settings, under(say, part)) for part in chosen_parts(parts)))
