"""
From a folder of photos to an encoder
=====================================

``care.pretrain`` reads a folder of pictures once, trains, and returns the frozen encoder. This script first draws its
photos, 60 in each of ten folders; replace their path with that of your own photos.
"""

from pathlib import Path
from tempfile import mkdtemp

import torch
from PIL import Image
from torch.nn.functional import normalize

import care
from care.data import generate_shapes
from care.report import GalleryRow, steered_gallery

work = Path(mkdtemp())
photos = work / "photos"
shapes = generate_shapes(600, seed=0)
for i, (image, label) in enumerate(zip(shapes.images, shapes.labels, strict=True)):
    folder = photos / shapes.classes[label]
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(folder / f"{i}.png")

# %%
# One call trains the encoder. It writes a run folder, as ``care train`` does, for ``care evaluate``, ``care steer`` and
# ``care explore``. Training does not use the labels.

encoder = care.pretrain(
    photos,
    out=work / "run",
    model="small_resnet",
    size=24,
    embedding_dim=64,
    head_width=256,
    temperature=0.2,
    epochs=8,
    batch_size=64,
    quiet=True,
)

# %%
# Compute the features of new pictures, and the nearest neighbors of each; neighbors of the same class are green. After
# eight epochs of so few pictures, they are little more frequent than by chance, 10 %: what neighbors share is still
# color and background.

pictures = generate_shapes(1000, seed=1)
views = care.augment.apply(pictures.images, care.augment.simclr(size=24).unchanged(1000, (32, 32)))
with torch.no_grad():
    features = normalize(encoder.features(views))
nearest = (features @ features.mT).fill_diagonal_(-1).topk(6).indices

share = (pictures.labels[nearest] == pictures.labels[:, None]).float().mean()
print(f"{share:.0%} of the neighbors are of the picture's class")

rows = []
for query in (3, 14, 15, 92):
    found = nearest[query]
    names = [pictures.classes[label] for label in pictures.labels[found]]
    same = pictures.labels[found] == pictures.labels[query]
    name = pictures.classes[pictures.labels[query]]
    rows.append(GalleryRow("", pictures.images[query], name, pictures.images[found], names, same))
figure = steered_gallery(rows, "a picture, and its neighbors (green: of the same class)")
