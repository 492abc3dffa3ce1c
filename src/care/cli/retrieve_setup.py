"""Inputs and figure of `care retrieve`: the rotation, the query, and the pictures that are found."""

import dataclasses
from pathlib import Path

import torch
from matplotlib.figure import Figure

from care.augment import ImageParameters, ImagePolicy, apply
from care.cli.steer_setup import outputs_of, steered_embedder
from care.data import Samples
from care.data.readers.pictures import Pictures
from care.data.readers.source import Unreadable
from care.evaluate import Embedder, EvaluationSetup
from care.report import GalleryRow, steered_gallery
from care.steer import LearnedRotation, Query, RetrievalResult, load
from care.steer.retrieving import AUGMENTED, WAYS


def image_policy(setup: EvaluationSetup) -> ImagePolicy:
    """The policy of the setup, which must be for images."""
    if not isinstance(setup.policy, ImagePolicy):
        raise ValueError("care retrieve is for images: point clouds have neither a hue nor a picture to show")
    return setup.policy


def rotation_of(file: Path, setup: EvaluationSetup, model: str) -> LearnedRotation:
    """The learned rotation in the file; ValueError if there is none, or if it is for other embeddings or views."""
    if not file.is_file():
        raise ValueError(f"{file} does not exist: run care steer {model} first")
    rotation, policy = load(file), setup.policy
    if rotation.output not in outputs_of(setup):
        raise ValueError(
            f"{file} rotates the output {rotation.output}, which {model} does not have: run care steer {model} again"
        )
    d = steered_embedder(setup, setup.test.limit(2), rotation.output).clean()[rotation.output].shape[1]
    if len(rotation.basis) != d:
        raise ValueError(
            f"{file} rotates embeddings of {len(rotation.basis)} dimensions, and those of {model} have {d}: "
            f"run care steer {model} again"
        )
    if isinstance(policy, ImagePolicy) and rotation.center != policy.center:
        raise ValueError(
            f"{file} was fitted to views of {rotation.center:g} of the picture, and those of {setup.policy_name} "
            f"are {policy.center:g} of it: choose the same --policy for both"
        )
    return rotation


def query_of(embedder: Embedder, text: str) -> Query:
    """The query that the text names: the number of one of the embedder's images, or a picture file."""
    if text.isdecimal():
        if int(text) >= len(embedder.samples):
            raise ValueError(f"there is no image {text}: the {len(embedder.samples)} of the split are counted from 0")
        return Query(text, embedder.take(torch.tensor([int(text)])), int(text))
    read = Pictures([(Path(text), -1)], min(embedder.samples.input_shape))[0]
    if isinstance(read, Unreadable):
        raise ValueError(f"{read.file} {read.reason}")
    pixels = torch.from_numpy(read.image)[None]
    alone = Samples(pixels, torch.tensor([-1]), embedder.samples.classes, name=text)
    return Query(text, dataclasses.replace(embedder, samples=alone))


def retrieval_figure(
    result: RetrievalResult, database: Samples, query: Samples, policy: ImagePolicy, a: ImageParameters
) -> Figure:
    """A row each for f(q), R(θ) f(q) (with the clean picture, too) and f(a(q)): the query and its neighbors."""
    unchanged, truth = policy.unchanged(1, query.input_shape), result.one.neighbors[AUGMENTED][0].cpu()  # type: ignore[arg-type]
    ways = []
    for way in WAYS:
        rows = result.one.neighbors[way][0].cpu()
        near = database.take(rows)
        picture = apply(query.inputs.cpu(), a if way == AUGMENTED else unchanged)[0]
        found = apply(near.inputs.cpu(), policy.unchanged(len(rows), database.input_shape))  # type: ignore[arg-type]
        framed = (rows[:, None] == truth).any(1) & (way != AUGMENTED)
        ways.append(
            GalleryRow(result.caption(way), picture, _classes(query)[0] or "query", found, _classes(near), framed)
        )
    return steered_gallery(ways, f"{result.model}: {result.change} (green: also a neighbor of f(a(q)))")


def _classes(samples: Samples) -> list[str]:
    return [samples.classes[label] if label >= 0 else "" for label in samples.labels.tolist()]
