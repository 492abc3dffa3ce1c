"""
Write a method
==============

A method is one file with its settings, its state, and the terms of its loss. This file implements TiCo (Zhu, Moraes,
Karakulak, Sobol, Canziani and LeCun, 2022) without its teacher: two views of a picture attract each other, and
embeddings are pushed out of the directions that earlier embeddings used. care itself handles views, gathering over
processes, CUDA graphs, resuming and export.
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
    """The settings of TiCo; each is also an option of the command line."""

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
        """Both terms of the loss, over the pictures of all processes."""
        a, b = (normalize(view.z) for view in views)
        beta = self.settings.tico_memory
        covariance = beta * self.covariance + (1 - beta) * a.mT @ a / len(a)
        self.newest = covariance.detach()
        spread = ((a @ covariance) * a).sum(1).mean()
        return {"attraction": Term(1 - (a * b).sum(1).mean()), "covariance": Term(spread, self.settings.tico_weight)}

    @torch.no_grad()
    def after_step(self, encoder: Encoder, progress: Tensor) -> None:
        """Keep the covariance in a buffer, which checkpoints include."""
        self.covariance.copy_(self.newest)


# %%
# On the command line, run ``care train --data shapes --method own_method.py:TiCo``; ``--tico-weight`` becomes an
# option, and you can add any ``--equivariance``. In Python, load the class once by its module.

if __name__ == "__main__":
    name = "__main__:TiCo"  # the running module: this script, or its notebook
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
# The log contains both terms beside the usual measures. Without the covariance term (ρ = 0), the embedding collapses:
# attraction alone is lowest if all pictures have the same embedding, and RankMe, the number of directions in use,
# falls. With the covariance term, two views of a picture are further apart, and the directions stay in use.

if __name__ == "__main__":
    figure = training_figure(logs, {"attraction": "attraction (↓)", "rankme": "RankMe (↑)"})
