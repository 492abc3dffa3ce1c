"""The model card of a trained encoder: what it was trained on and how, what was measured, and how to load it."""

import os
from pathlib import Path
from typing import Any

import care
from care.data.store import HEADER, read_header
from care.evaluate import Evaluation
from care.evaluate.evaluation import logistic_name, probe_name
from care.train.config import Config
from care.train.runs import Run
from care.train.trained import Trained

SETTINGS = (
    "model", "size", "train_size", "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "schedule",
    "policy", "seed",
)  # fmt: skip
METHODS = {
    "simclr": "SimCLR", "mocov2": "MoCo-v2", "mocov3": "MoCo-v3", "byol": "BYOL", "simsiam": "SimSiam",
    "barlow_twins": "Barlow Twins", "vicreg": "VICReg", "dcl": "DCL", "hard_negatives": "SimCLR with hard negatives",
    "invariance": "an invariance loss alone", "uniformity": "a uniformity loss alone", "none": "no contrastive loss",
}  # fmt: skip
EQUIVARIANCES = {
    "care": "CARE: augmentations act on the embedding as rotations",
    "split": "a split embedding: augmentations act on its equivariant part as rotations",
    "steering": "steering: augmentations act on the embedding as rotations that their parameters give",
    "augself": "AugSelf: the difference of two views' augmentations is predicted from the features",
    "equimod": "EquiMod: the embedding of a view is predicted from the picture and the augmentation",
    "essl": "E-SSL: quarter turns are predicted from the features",
    "sie": "SIE: a hypernetwork transforms the equivariant part of the embedding as the augmentation does",
    "steerable": "steerable representations: an augmentation acts as a linear map of its parameters",
    "duet": "DUET: features in bins show a parameter of the augmentation",
    "looc": "LooC: spaces that are invariant to all augmentations but one",
    "stl": "STL: the transformation of a pair of views is learned from another pair",
    "cassle": "CASSLE: the projection head sees the augmentation",
}
LOGGED = {
    "knn": "kNN accuracy of the features, k = 20",
    "gamma": "γ_f, relative rotational equivariance of the embedding (0: exact)",
    "heldout_ratio": "error that the best rotation leaves on new pictures (0: exact, 1: no better than none)",
    "positive_cosine": "cosine of the embeddings of two views of a picture",
    "negative_cosine": "cosine of the embeddings of two pictures",
    "rankme": "RankMe of the embedding: how many directions it uses",
}

CARD = """---
library_name: timm
pipeline_tag: image-feature-extraction
tags:
- timm
- self-supervised-learning
- contrastive-learning
- equivariance
---

# {title}

The backbone of a {model} that was pretrained without labels on {data} by {method}{equivariance}.

## Use

```python
import timm
import torch

model = timm.create_model("local-dir:FOLDER", pretrained=True).eval()  # or "hf-hub:USER/NAME", once it is published
transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
with torch.no_grad():
    features = model(transform(picture)[None])  # a picture of Pillow gives [1, {features}]
```

The projection head that was used in training is not included.

## Training

| | |
|---|---|
{training}

## Measures

{measures}

## License

Not stated. To publish this model, add `license:` to the first lines of this file, and respect the license of the data.
"""


def model_card(run: Path, trained: Trained) -> str:
    """The card of the encoder in a run folder, or in its `model.safetensors`, as Markdown."""
    config, folder = trained.config, run if run.is_dir() else run.parent
    equivariance = EQUIVARIANCES.get(config.equivariance.name, config.equivariance.name)
    with_it = "" if config.equivariance.name == "none" else f", with {equivariance}"
    return CARD.format(
        title=folder.resolve().name,
        model=config.model,
        data=_data(config),
        method=METHODS.get(config.method.name, config.method.name),
        equivariance=with_it,
        features=trained.encoder.head[0].in_features,  # type: ignore[index]
        training="\n".join(f"| {name} | {value} |" for name, value in _training(trained).items()),
        measures="\n\n".join([*_logged(folder), *_evaluated(folder)]) or "None.",
    )


def _data(config: Config) -> str:
    """The data set in words; a path is reduced to the data set's own name, since paths are private."""
    if os.sep not in config.data:
        return f"{config.data} ({config.split})"
    stores = (Path(config.data), Path(config.data) / config.split)
    for store in (store for store in stores if (store / HEADER).exists()):
        header = read_header(store)
        return f"{header.name} ({header.count:,} pictures of {header.height} × {header.width}, {header.source})"
    return Path(config.data).name


def _training(trained: Trained) -> dict[str, Any]:
    config, values = trained.config, trained.config.flat()
    chosen = {name: values[name] for name in SETTINGS if values[name] is not None}
    views = " × ".join(map(str, trained.input_shape))
    settings = {**config.method.flat(), **config.equivariance.flat()}
    names = {"data": _data(config), "method": config.method.name, "equivariance": config.equivariance.name}
    return {**names, **settings, **chosen, "size of a view": views, "trained with": f"care {care.__version__}"}


def _logged(folder: Path) -> list[str]:
    """The measures in the last line of the log."""
    log = Run(folder).log()
    shown = {words: log[-1].get(name) for name, words in LOGGED.items()} if log else {}
    rows = [f"| {words} | {value:.3f} |" for words, value in shown.items() if value is not None]
    title = f"On held-out pictures, after {log[-1]['epoch']} epochs:\n\n| | |\n|---|---|\n" if rows else ""
    return [title + "\n".join(rows)] if rows else []


def _evaluated(folder: Path) -> list[str]:
    """The classification of `care evaluate`, if the run was evaluated."""
    if not (folder / "evaluation").is_dir():
        return []
    record = Evaluation.load(folder / "evaluation").record
    about, logistic, probe = record["about"], record["logistic"], record["probe"]
    rows = [f"| kNN, k = {k} | {100 * accuracy:.1f} % |" for k, accuracy in (record["knn"] or {}).items()]
    if probe is not None:
        rows.insert(0, f"| {probe_name(record)} | {100 * probe['mean']:.1f} ± {100 * probe['std']:.1f} % |")
    if logistic is not None:
        rows.insert(0, f"| {logistic_name(logistic)} | {100 * logistic['accuracy']:.1f} % |")
    title = f"By `care evaluate`, on {about['test_images']:,} pictures ({about['split']}):\n\n| | |\n|---|---|\n"
    return [title + "\n".join(rows)] if rows else []
