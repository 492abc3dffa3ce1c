"""
Write a method
==============

A method is one file: its settings, its state, and the terms of its loss. This file is one, TiCo (Zhu, Moraes,
Karakulak, Sobol, Canziani and LeCun, 2022) without its teacher: two views of a picture attract, and embeddings are kept
out of the directions that earlier ones used. Views, gathering over processes, CUDA graphs, resume and export are not
its business.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

import care
from care.models import Encoder
from care.objective import Context, EncodedView, Method, Settings, Term, Terms, registry, setting
from care.report import training_figure
from care.train import Run


@dataclass(frozen=True, kw_only=True)
class TiCoSettings(Settings):
    """Settings of TiCo: an option of the command line each."""

    tico_weight: float = setting(8.0, "ρ, the weight of the covariance.", at_least=0)
    tico_memory: float = setting(0.9, "β, how much of the covariance stays from step to step.", at_least=0, below=1)


class TiCo(Method):
    """L = 1 − E z·z⁺ + ρ E zᵀ C z, with C ← β C + (1 − β) E z zᵀ over steps."""

    Settings = TiCoSettings
    covariance: Tensor

    def __init__(self, settings: Any, encoder: Encoder, context: Context) -> None:
        super().__init__(settings, encoder, context)
        self.register_buffer("covariance", torch.zeros(context.invariant_dim, context.invariant_dim))
        self.newest = self.covariance

    def terms(self, *views: EncodedView) -> Terms:
        """Both parts, over the pictures of all processes."""
        a, b = (normalize(view.z) for view in views)
        beta = self.settings.tico_memory
        covariance = beta * self.covariance + (1 - beta) * a.mT @ a / len(a)
        self.newest = covariance.detach()
        spread = ((a @ covariance) * a).sum(1).mean()
        return {"attraction": Term(1 - (a * b).sum(1).mean()), "covariance": Term(spread, self.settings.tico_weight)}

    @torch.no_grad()
    def after_step(self, encoder: Encoder, progress: Tensor) -> None:
        """Keep the covariance: a buffer, so that checkpoints have it."""
        self.covariance.copy_(self.newest)


# %%
# On the command line it is ``care train --data shapes --method own_method.py:TiCo``, with ``--tico-weight`` among
# its options and any ``--equivariance`` beside it. In Python it is loaded once, by its module.

if __name__ == "__main__":
    name = "__main__:TiCo"  # what runs: this script, or a notebook of it
    registry.load("method", name)
    work, logs = Path(mkdtemp()), {}
    for title, weight in {"ρ = 8": 8.0, "ρ = 0": 0.0}.items():
        care.pretrain(
            "shapes", out=work / title, method=name, equivariance="none", tico_weight=weight,
            model="small_resnet", size=24, embedding_dim=64, head_width=256, limit=1500, epochs=6, batch_size=128,
            learning_rate=1e-3, schedule="cosine", evaluate_every=1, quiet=True,
        )  # fmt: skip
        logs[title] = Run(work / title).log()

# %%
# The log has both terms beside the usual measures. Without the covariance, ρ = 0, the embedding collapses: attraction
# alone is least where all pictures have one embedding, and RankMe, the number of directions that are used, falls. With
# it, two views of a picture are further apart, and the directions stay.

if __name__ == "__main__":
    figure = training_figure(logs, {"attraction": "attraction (↓)", "rankme": "RankMe (↑)"})
