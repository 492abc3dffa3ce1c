"""Linear probes on augmented images, as the authors' program trains them."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from care.augment import apply
from care.data import batches
from care.evaluate.embedder import Embedder, features_of
from care.evaluate.features.probe import Batches, ProbeResult, Protocol, evaluate_probes, train_probes
from care.randomness import epoch_order, generator_for


def augmented_probe(
    train: Embedder,
    embedder: Embedder,
    protocol: Protocol,
    bn_train: nn.Module | None = None,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> ProbeResult:
    """Probes trained on a new augmentation of every image in every epoch, and scored on clean images.

    All seeds share the augmented images, which pass through the encoder once. Only one learning rate is allowed, since
    a choice between several would need an augmented validation set. With a module `bn_train`, its BatchNorm layers are
    in training mode meanwhile, so that their running statistics follow the augmented images; test images are normalized
    with the final statistics, as in the authors' program. Afterwards, the module is restored.
    """
    if len(protocol.learning_rates) > 1:
        raise ValueError(f"a probe on augmented images takes one learning rate, got {protocol.learning_rates}")
    labels, test_labels = train.samples.labels.to(train.device), embedder.samples.labels.to(train.device)
    one = dataclasses.replace(embedder, samples=embedder.samples.limit(1))
    classes, d = int(labels.max()) + 1, features_of(one.clean()).shape[1]
    with _batchnorm_in_training(bn_train) as end_training:
        stream = _augmented_batches(train, labels, protocol.batch_size, seed)
        probes = train_probes(stream, d, classes, protocol, seed, train.device, tick=tick)
        end_training()
        right = evaluate_probes(probes, features_of(embedder.clean()), test_labels)
    return ProbeResult(protocol.learning_rates, 0, *right)


def _augmented_batches(train: Embedder, labels: Int64[Tensor, " n"], batch_size: int, seed: int) -> Batches:
    """Features of all images, in a new order and with new augmentations in every epoch."""

    @torch.no_grad()
    def stream(epoch: int) -> Iterator[tuple[Float[Tensor, "b d"], Int64[Tensor, " b"]]]:
        order = epoch_order(len(labels), seed, epoch).split(batch_size)
        generator = generator_for(train.device, seed, "augmented probe", epoch)
        for rows, inputs in zip(order, batches(train.samples, order, train.device), strict=True):
            p = train.policy.sample(len(rows), train.samples.input_shape, generator)  # type: ignore[arg-type]
            yield features_of(train.embed(apply(inputs, p))).float(), labels[rows.to(labels.device)]

    return stream


@contextmanager
def _batchnorm_in_training(module: nn.Module | None) -> Iterator[Callable[[], None]]:
    """Put BatchNorm of `module` into training mode until the yielded function is called; restore it on exit."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)] if module else []
    before = [(m.training, {name: value.clone() for name, value in m.named_buffers()}) for m in norms]

    def end_training() -> None:
        for m in norms:
            m.training = False

    for m in norms:
        m.training = True
    try:
        yield end_training
    finally:
        for m, (training, buffers) in zip(norms, before, strict=True):
            m.training = training
            for name, value in m.named_buffers():
                value.copy_(buffers[name])
