"""How the embeddings of any model respond to augmentations."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from care import geometry
from care.augment import policy_named
from care.augment.naming import Policy
from care.data import Samples, place
from care.evaluate.decoding.decode import RECORDED, evaluate_decoding
from care.evaluate.effects.effect import FamilyMeasures
from care.evaluate.effects.families import ALL, OnEffect, measure_families
from care.evaluate.effects.measurement import Measurement
from care.evaluate.embedder import EUCLIDEAN, Embedder, Embeddings, device_of
from care.frozen import frozen
from care.geometry import BilinearForm, Euclidean, Source, Symplectic, symplectic_strength
from care.progress import ProgressCallback, silent


def measure(
    model: Callable[[Tensor], Tensor],
    images: Tensor | Samples,
    policy: Policy | str = "simclr",
    *,
    augmentations: int = 20,
    families: bool = True,
    form: BilinearForm = EUCLIDEAN,
    name: str = "model",
    seed: int = 0,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    progress: ProgressCallback = silent,
    rank: int | None = None,
    decode: bool = False,
) -> Measurement:
    """How the embeddings `model(images)` respond to augmentations of `policy`.

    `model` is any function of images [n, 3, size, size] in [0, 1] (or of point clouds) that returns embeddings [n, d];
    a module is put into evaluation mode meanwhile. Embeddings are put on the unit sphere, or in the space of `form`.
    `images` are uint8 or in [0, 1]; the policy makes views of its own size from them. The same seed draws the same
    augmentations for every model, so measurements are paired. It runs on the model's device, or on `device`. Rotations
    act on the `rank` leading directions: by default on all, but at most a quarter of the number of images. `decode`
    adds the R² of the augmentations' parameters, decoded from embeddings: hue, crop, blur …
    """
    samples = images if isinstance(images, Samples) else _samples(images)
    words = policy if isinstance(policy, str) else "a custom policy"
    policy = policy_named(policy) if isinstance(policy, str) else policy
    where = torch.device(device) if device is not None else device_of(model, samples)
    embed, placed = (lambda x: {name: model(x)}), place(samples, where)
    embedder = Embedder(embed, placed, policy, words, where, batch_size, {name: form})
    with frozen(model):
        return measure_model(embedder, augmentations, families, seed, progress, rank, decode)[name]


def measure_model(
    embedder: Embedder,
    augmentations: int = 20,
    families: bool = True,
    seed: int = 0,
    progress: ProgressCallback = silent,
    rank: int | None = None,
    decode: bool = False,
) -> dict[str, Measurement]:
    """`measure` for every output of a model at once."""
    clean = embedder.clean()
    found = measure_outputs(embedder, clean, augmentations, families, seed, progress, rank=rank)
    return with_decoding(found, embedder, clean, seed, progress) if decode else found


def with_decoding(
    measured: Mapping[str, Measurement], embedder: Embedder, clean: Embeddings, seed: int, progress: ProgressCallback
) -> dict[str, Measurement]:
    """Measurements with the R² of the parameters of augmentations, by decoder."""
    record, _ = evaluate_decoding(embedder, clean, seed, progress)
    return {
        output: dataclasses.replace(measurement, decoding={name: record[key][output] for name, key in RECORDED.items()})
        for output, measurement in measured.items()
    }


def measure_outputs(
    embedder: Embedder,
    clean: Embeddings,
    augmentations: int = 20,
    families: bool = True,
    seed: int = 0,
    progress: ProgressCallback = silent,
    on_effect: OnEffect | None = None,
    rank: int | None = None,
) -> dict[str, Measurement]:
    """`measure_model`, given the outputs `clean` of the model for the clean samples.

    `on_effect` is called with the effect of every augmentation as soon as it is measured.
    """
    F = embedder.points(clean)
    found, sources = measure_families(embedder, F, augmentations, families, seed, progress, on_effect, rank)
    return {
        output: _measurement(output, embedder, z, found[output], sources.get(output)) for output, z in clean.items()
    }


def _measurement(
    name: str, embedder: Embedder, z: Tensor, families: Mapping[str, FamilyMeasures], source: Source | None
) -> Measurement:
    form, (n, d) = embedder.form(name), z.shape
    F = form.embed(z)
    sigma = geometry.spectrum(F)
    collapse = {
        "rankme": geometry.rankme(z).item(),
        "effective_rank": geometry.effective_rank(sigma).item(),
        "alignment": max(0.0, 2 - 2 * families[ALL].cosine.mean) if bool(F.any()) else 0.0,
        "gaussian_uniformity": geometry.gaussian_uniformity(F).item(),
    }
    length = None if isinstance(form, Euclidean) else F.norm(dim=1).mean().item()
    strength = symplectic_strength(F).item() if isinstance(form, Symplectic) else math.nan
    known = None if math.isnan(strength) else strength
    size = getattr(embedder.policy, "size", None)
    values = tuple(sigma.tolist())
    fitted = (None, None) if source is None else (source.dimension, source.share)
    return Measurement(name, embedder.policy_name, n, d, families, values, length, known, size, collapse, *fitted)


def _samples(inputs: Tensor) -> Samples:
    """Unlabeled samples; images in [0, 1] are rounded to 8 bits, their usual original precision."""
    if not isinstance(inputs, Tensor):
        kind = type(inputs).__name__
        raise ValueError(f"images must be a tensor [n, 3, height, width] or care.data.Samples, got a {kind}")
    if inputs.is_floating_point() and inputs.ndim == 4:
        if not ((inputs >= 0) & (inputs <= 1)).all():  # NaN is neither
            raise ValueError("images must be in [0, 1], before any normalization; put that into the model")
        inputs = (255 * inputs).round().to(torch.uint8)
    labels = torch.full((len(inputs),), -1, device=inputs.device)
    return Samples(inputs, labels, ())
