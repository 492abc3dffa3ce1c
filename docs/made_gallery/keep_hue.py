"""
Keep the hue, and retrieve by it
================================

A contrastive loss discards whatever differs between its views. ``--keep hue`` adds a loss that predicts color from the
features, so that they keep it, and adds an equivariant part to the embedding, on which hue shifts act as rotations.
This script trains one encoder with ``--keep hue`` and one without, recolors some pictures, and retrieves their
neighbors with each encoder.
"""

from pathlib import Path
from tempfile import mkdtemp

import torch
from torch.nn.functional import normalize

import care
from care.augment import apply, changed
from care.data import generate_shapes
from care.evaluate import retrieval_measures
from care.evaluate.retrieval.hue import mean_hue
from care.pretrained import load_pretrained
from care.report import neighbors_figure

settings = {
    "model": "small_resnet", "size": 24, "embedding_dim": 64, "head_width": 256, "temperature": 0.2, "limit": 1800,
    "views": 2, "epochs": 4, "batch_size": 128, "quiet": True,
}  # fmt: skip
work = Path(mkdtemp())
care.pretrain("shapes", out=work / "SimCLR", **settings)
care.pretrain("shapes", out=work / "keep hue", keep="hue", **settings)

# %%
# The queries are pictures with their hue shifted by a third of the circle. The hue distance between a query and its
# five neighbors is 0 if they have its color, and 0.25 by chance. Neighbors are searched by the whole embedding.

pictures = generate_shapes(1500, seed=1)
unchanged = care.augment.simclr(size=24).unchanged(1500, (32, 32))
recolor = changed(unchanged[:200], {"hue": 1 / 3})
views, recolored = apply(pictures.images, unchanged), apply(pictures.images[:200], recolor)


found = {}
for name in ("SimCLR", "keep hue"):
    embed = load_pretrained(str(work / name)).embed
    F, F_a = (normalize(embed(images)["embedding"]) for images in (views, recolored))
    retrieved = retrieval_measures(F, torch.arange(200), F_a, mean_hue(views), mean_hue(recolored), pictures.labels)
    found[name] = pictures.images[retrieved.after[:3]]
    print(f"{name}: hue distance {retrieved.hue_distance:.3f}, of the query's class {retrieved.class_precision:.0%}")

# %%
# The first three queries. The encoder that keeps the hue finds neighbors with the color of the query.

figure = neighbors_figure(pictures.images[:3], recolored[:3], found)
