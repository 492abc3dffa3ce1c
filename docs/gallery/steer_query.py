"""
Steer a query
=============

Find pictures like this one but in another color, without changing a pixel: rotate the embedding of the query. The
rotation is a function of the augmentation's parameters θ, R(θ) = exp(Σ θ_k A_k). Its generators A_k are fitted once to
a frozen encoder.
"""

from pathlib import Path
from tempfile import mkdtemp

import torch
from torch import Tensor
from torch.nn.functional import normalize

import care
from care.augment import apply, hue_only
from care.data import Samples, generate_shapes
from care.evaluate import Embedder
from care.evaluate.effects.families import Family
from care.report import GalleryRow, steered_gallery
from care.steer import augmentation_of, embed_database, fit_rotation, search, statistics_of

encoder = care.pretrain(
    "shapes", out=Path(mkdtemp()) / "run", keep="hue", model="small_resnet", size=24, embedding_dim=64, head_width=256,
    temperature=0.2, limit=2000, epochs=4, batch_size=128, quiet=True,
)  # fmt: skip

# %%
# Fit the generators on 400 pictures under 30 hue shifts, in the 24 directions in which embeddings vary most. A split
# embedding has two parts, each on its own sphere: 64 coordinates for the contrastive loss and 16 for the hue.

policy = hue_only().resized(24)


def embed(x: Tensor) -> dict[str, Tensor]:
    """Both parts, each of unit length."""
    return {"z": torch.cat([normalize(part) for part in encoder(x).split([64, 16], dim=1)], dim=1)}


def observe(n: int, seed: int) -> Embedder:
    """n pictures, embedded under the policy."""
    made = generate_shapes(n, seed)
    samples = Samples(made.images, made.labels, made.classes)
    return Embedder(embed, samples, policy, "hue_only", torch.device("cpu"))


rotation = fit_rotation(statistics_of(observe(400, seed=1), "z", [Family("hue", policy, 30)], rank=24))

# %%
# Search 2,000 other pictures for the neighbors of f(q), R(θ) f(q), and f(a(q)), where a(q) is the recolored query.

images, shift = observe(2000, seed=2), {"hue": 0.3}
queries = images.samples.limit(100)
a = augmentation_of(images, shift)
asked = Embedder(images.embed, queries, policy, "hue_only", torch.device("cpu"))
found = search(embed_database(images, "z"), torch.arange(100), asked, "z", rotation, a, k=6)
for way in found.neighbors:
    overlap, hue = (found.mean(measure, way).difference for measure in ("overlap", "hue_distance"))
    print(f"{way}: overlap with the neighbors of f(a(q)) {overlap:.2f}, hue distance {hue:.3f}")

# %%
# The query whose overlap is the median. The middle row is found without the recolored picture; green marks neighbors
# that the last row also has.

overlap = found.units["overlap"]["learned_rotation"]
query = int(overlap.median(0).indices)
words = {"identity": "f(q)", "learned_rotation": "R(θ) f(q): hue +0.3", "augmented": "f(a(q)): recolored"}
rows, truth = [], found.neighbors["augmented"][query]
for way, title in words.items():
    near = found.neighbors[way][query]
    picture = apply(queries.inputs[[query]], a if way == "augmented" else policy.unchanged(1, queries.input_shape))[0]
    names = [images.samples.classes[label] for label in images.samples.labels[near]]
    framed = (near[:, None] == truth).any(1) & (way != "augmented")
    rows.append(GalleryRow(title, picture, "query", images.samples.inputs[near], names, framed))
figure = steered_gallery(rows, "neighbors by the embedding, by the steered one, and by that of the recolored picture")
