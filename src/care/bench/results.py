"""The results of a benchmark: tables for people, JSON for programs."""

import dataclasses
import json
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

import care
from care.bench.settings import Settings
from care.tables import paragraphs, text_table, wrapped

Row = dict[str, Any]

# Quantity → (its heading in a table, its format). Other quantities are in the JSON only.
SHOWN: dict[str, tuple[str, str]] = {
    "name": ("", "{}"),
    "workers": ("workers", "{}"),
    "processes": ("processes", "{}"),
    "load": ("load", "{:.1f}"),
    "views": ("views", "{:.3g}"),
    "samples_per_second": ("samples/s", "{:,.0f}"),
    "as_many_views": ("SimCLR, as many views", "{:,.0f}"),
    "of_simclr": ("fraction", "{:.2f}"),
    "ratio": ("× plain loop", "{:.2f}"),
    "efficiency": ("efficiency", "{:.0%}"),
    "ms_per_step": ("ms/step", "{:.1f}"),
    "draw_ms": ("draw + augment", "{:.1f}"),
    "forward_ms": ("forward", "{:.1f}"),
    "backward_ms": ("backward", "{:.1f}"),
    "update_ms": ("update", "{:.1f}"),
    "gather_ms": ("gather ms", "{:.2f}"),
    "average_ms": ("average gradients ms", "{:.2f}"),
    "predicted_ms": ("predicted ms/step", "{:.1f}"),
    "prediction_error": ("error", "{:+.0%}"),
    "compute_ms": ("compute", "{:.2f}"),
    "contrast_waited_ms": ("InfoNCE", "{:.2f}"),
    "gather_waited_ms": ("embeddings", "{:.2f}"),
    "batchnorm_waited_ms": ("BatchNorm", "{:.2f}"),
    "gradients_waited_ms": ("gradients", "{:.2f}"),
    "embedding_bytes": ("embeddings B/step", "{:,}"),
    "gradient_bytes": ("gradients B/step", "{:,}"),
    "batchnorm_bytes": ("BatchNorm B/step", "{:,}"),
    "views_share": ("of a step, views", "{:.1%}"),
    "passes_share": ("forward + backward", "{:.1%}"),
    "share_of_limit": ("of the limit", "{:.1%}"),
    "memory_mb": ("peak MB", "{:,.0f}"),
    "ms_per_1024": ("ms per 1,024 views", "{:.1f}"),
    "times_torchvision": ("× torchvision", "{:.1f}"),
    "mb_per_second": ("MB/s", "{:,.0f}"),
    "own_memory_growth_mb": ("memory growth MB", "{:+.1f}"),
    "source_rate": ("source alone, samples/s", "{:,.0f}"),
    "waiting_share": ("of a step waiting", "{:.1%}"),
    "seconds": ("s to the first step", "{:.1f}"),
    "import_seconds": ("imports", "{:.1f}"),
    "build_seconds": ("building", "{:.1f}"),
    "step_seconds": ("first step", "{:.1f}"),
}


@dataclass(frozen=True)
class Table:
    """A part of the benchmark: rows of named quantities, and notes that explain them."""

    part: str
    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The table with a line per note below it."""
        columns = [key for key in SHOWN if any(row.get(key) is not None for row in self.rows)]
        cells = [[_cell(row.get(key), SHOWN[key][1]) for key in columns] for row in self.rows]
        table = text_table(self.title, [SHOWN[key][0] for key in columns], cells)
        return "\n\n".join(filter(None, [table, paragraphs(self.notes)]))

    def to_json(self) -> dict[str, Any]:
        """Everything, unrounded."""
        return {"title": self.title, "rows": list(self.rows), "notes": list(self.notes)}


@dataclass(frozen=True)
class Report:
    """All tables, the settings they were made with, and the machine."""

    settings: Settings
    tables: tuple[Table, ...]

    def text(self) -> str:
        """All tables, below each other."""
        return "\n\n".join([wrapped(headline(self.settings)), *(table.text() for table in self.tables)])

    def to_json(self) -> str:
        """Machine, settings and every number."""
        record = {
            "machine": machine(self.settings),
            "settings": dataclasses.asdict(self.settings),
            "tables": {table.part: table.to_json() for table in self.tables},
        }
        return json.dumps(record, indent=1, allow_nan=False)


def machine(settings: Settings) -> dict[str, Any]:
    """The versions and the hardware that the numbers depend on."""
    return {
        "care": care.__version__,
        **{name: version(name) for name in ("torch", "torchvision", "timm")},
        "python": platform.python_version(),
        "gpu": torch.cuda.get_device_name(settings.device) if settings.on_gpu else None,
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def headline(settings: Settings) -> str:
    """The machine and the settings in one line."""
    found = machine(settings)
    where = found["gpu"] or f"CPU, {found['cpus']} cores, {found['threads']} threads"
    return (
        f"care {found['care']}, torch {found['torch']}, {where}: {settings.model}, "
        f"batch {settings.batch_size}, {settings.size} px, {'compiled' if settings.compile else 'not compiled'}"
    )


def _cell(value: Any, form: str) -> str:
    return "–" if value is None else form.format(value)
