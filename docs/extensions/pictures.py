"""What the gallery keeps of a script: the figures it made, small enough for a repository."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from care.report.drawing import small_png

ORDER = [
    "own_loop",
    "own_photos",
    "point_clouds",
    "keep_hue",
    "steer_query",
    "own_method",
    "read_comparison",
    "hue_after_training",
    "imagenet_hue",
]
LIMIT = 100_000  # bytes
DOTS_PER_INCH = (120, 90, 70)


def keep_figures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Write every new figure among the variables of the script, and return what shows them."""
    kept = block_vars["example_globals"].setdefault("__kept__", set())
    figures = [x for x in block_vars["example_globals"].values() if isinstance(x, Figure) and id(x) not in kept]
    paths = []
    for figure in figures:
        path = Path(next(block_vars["image_path_iterator"]))
        write_small(figure, path)
        kept.add(id(figure))
        paths.append(str(path))
    return figure_rst(paths, gallery_conf["src_dir"], "What the script drew") if paths else ""


def write_small(figure: Figure, path: Path) -> None:
    """As a PNG of at most `LIMIT` bytes, as fine as they allow."""
    drawn = (small_png(figure, dpi) for dpi in DOTS_PER_INCH)
    png = next((png for png in drawn if len(png) <= LIMIT), None)
    if png is None:
        raise ValueError(f"{path.name} has more than {LIMIT:,} bytes: draw fewer pictures")
    path.write_bytes(png)


def quiet(gallery_conf: dict[str, Any], fname: str) -> None:
    """No window, and the same figures on every machine."""
    matplotlib.use("agg")
    matplotlib.rcdefaults()


class Place:
    """Where a script stands in the gallery: in `ORDER`, and after these by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """The key to sort by."""
        script = Path(name).stem
        return (ORDER.index(script) if script in ORDER else len(ORDER), script)
