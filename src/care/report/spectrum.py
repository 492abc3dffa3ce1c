"""How many directions of the embedding space a model uses."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from care.geometry import effective_rank
from care.report.style import INK, LABEL, label_ends, literal, model_colors, short, shortened, tidy, whole_decades

FLOOR = 1e-6  # of the first singular value: below is rounding in float32


def spectrum_figure(models: Mapping[str, Sequence[float | int]]) -> Figure:
    """The singular values of the centered embeddings, σ_k / σ_1, with the effective rank written at each line.

    `models` maps model → singular values, in any order. Values below 10⁻⁶ of the first are not drawn; a model whose
    embeddings are all equal has no line and is called collapsed.
    """
    if not models or any(len(values) == 0 for values in models.values()):
        raise ValueError("there is nothing to draw: pass at least one model, with at least one singular value")
    figure = Figure(figsize=(6.8, max(3.0, 0.34 * len(models) + 1.2)), layout="constrained")
    ax = figure.subplots()
    tidy(ax)
    ax.set_yscale("log")
    ends = []
    for name, color in model_colors(models).items():
        relative = _relative(models[name])
        ax.plot(
            range(1, len(relative) + 1), relative, color=color, linewidth=1.5, marker="." if len(relative) < 20 else ""
        )
        note = _in_words(models[name])
        ends.append((relative[-1] if relative else FLOOR, f"{literal(shortened(name, 32))}\n{note}", color))
    drawn = [value for values in models.values() for value in _relative(values)]
    ax.set(xlim=(0.5, max(map(len, models.values())) + 0.5), ylim=(whole_decades(drawn)[0], 1.4))
    ax.xaxis.set_major_locator(MaxNLocator(7, integer=True, min_n_ticks=1))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("singular value k", fontsize=LABEL, color=INK)
    ax.set_ylabel("$σ_k / σ_1$  (flat: all directions used)", fontsize=LABEL, color=INK)
    label_ends(ax, ends)
    return figure


def _in_words(singular_values: Sequence[float | int]) -> str:
    """The effective rank and the number of singular values, which is below the dimension if there are few images."""
    rank, count = effective_rank(torch.tensor(singular_values, dtype=torch.float64)).item(), len(singular_values)
    return "collapsed" if rank == 0 else f"effective rank {short(rank)} of {count} singular values"


def _relative(singular_values: Sequence[float | int]) -> list[float]:
    """σ_k / σ_1 in descending order, down to the floor."""
    first = max(singular_values)
    return [s / first for s in sorted(singular_values, reverse=True) if first > 0 and s > FLOOR * first]
