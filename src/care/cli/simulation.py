"""The options and the figure of `care bench scaling --simulate`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from care.bench.messages import Say
    from care.bench.results import Report
    from care.bench.scaling_links import Link
    from care.bench.settings import Settings


def simulation(
    largest: int, measured: Path | None, node: int, inside: str, between: str
) -> "Callable[[Settings, Say], Report]":
    """Check the options, and return a function that simulates up to `largest` GPUs from a measured step."""
    from care.bench.scaling_links import Fabric
    from care.bench.scaling_simulated import measure_workload, read_workload, simulated_report

    fabric = Fabric(node, _link(inside), _link(between))
    known = None if measured is None else read_workload(measured)

    def simulated(settings: "Settings", say: "Say") -> "Report":
        work, source = known or (measure_workload(settings, say), "one process of this machine")
        return simulated_report(settings, work, fabric, largest, source)

    return simulated


def _link(text: str) -> "Link":
    from care.bench.scaling_links import Link

    try:
        rate, hop = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"expected GB/s and µs such as 50,5, got {text!r}") from error
    if not (0 < rate < float("inf") and 0 <= hop < float("inf")):
        raise ValueError(f"a link has more than 0 GB/s, and hops of at least 0 µs, got {text!r}")
    return Link(1e9 * rate, 1e-6 * hop)


def drawn(report: "Report") -> bytes:
    """The rows as a figure, PNG."""
    from care.report.drawing import small_png
    from care.report.scaling import scaling_figure

    return small_png(scaling_figure(report.tables[0].rows))
