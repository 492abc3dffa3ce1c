"""The model, the data and the policy that a command measures with, checked before anything is measured."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from care import data
from care.augment import PointPolicy, apply
from care.augment.naming import Policy
from care.cli.errors import sentence_of
from care.data import Samples, place
from care.data.registry import NoHeldoutSplit, heldout_split
from care.evaluate import Embedder, EvaluationSetup
from care.evaluate.embedder import EMBEDDING
from care.geometry import form_named
from care.objective import policy_for
from care.pretrained import PretrainedModel, is_timm_folder, load_pretrained
from care.tables import visible
from care.train import Config
from care.train.distributed import resolve_device
from care.train.trained import is_checkpoint, load_config

FIFTH = "a fifth of train"  # the name of that split
FEWEST = 20  # images: with fewer, the halves that rotations are fitted and tested on are too small

Train = Literal["needed", "used", "unused"]
Channels = tuple[float, ...] | None


@dataclass(frozen=True)
class ModelOptions:
    """What a user asked to measure: a model, and what it is measured on. None stands for the default.

    `normalization` is the mean and the standard deviation of the channels, for a model that care did not train. `layer`
    names a layer of the backbone to measure in addition to its last features.
    """

    model: str
    data: str | None = None
    split: str | None = None
    policy: str | None = None
    size: int | None = None
    normalization: tuple[Channels, Channels] = (None, None)
    device: str = "auto"
    batch_size: int | None = None
    layer: str | None = None

    @property
    def on(self) -> torch.device:
        """The device."""
        return torch.device(resolve_device(self.device))

    def load(self) -> PretrainedModel:
        """The model, on its device."""
        mean, std = self.normalization
        return load_pretrained(self.model, mean=mean, std=std, layer=self.layer).to(self.on)

    def load_file(self) -> PretrainedModel | None:
        """The model, if it is in a file. timm weights may need a download, so all other options are checked first."""
        return None if self.model.startswith("timm/") else self.load()


def config_of(model: str) -> Config | None:
    """The configuration of a run, which names its data; None for other models."""
    path = Path(model)
    if model.startswith("timm/") or is_timm_folder(path):
        return None
    return load_config(path) if path.is_dir() or path.suffix == ".safetensors" else None


def is_run(model: str) -> bool:
    """Whether `model` is the folder of a run, not of a checkpoint nor of an export for Hugging Face."""
    path = Path(model)
    return path.is_dir() and not is_timm_folder(path) and not is_checkpoint(path)


def policy_name(options: ModelOptions, config: Config | None) -> str:
    """The policy that was asked for, or else the run's, or simclr; ValueError if there is no such policy."""
    name = options.policy or (config.measured_policy if config else "simclr")
    policy_for(name, options.size)
    return name


def views_for(options: ModelOptions, policy_name: str, model: PretrainedModel, samples: Samples) -> Policy:
    """The policy, at the size that was asked for or the model's; ValueError if it does not suit model or samples."""
    policy = policy_for(policy_name, options.size or model.size)
    check_setup(model, samples, policy, policy_name, options.on)
    return policy


def distinct_names(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """The names of models; those that several models have are replaced by what the user gave for each."""
    return [name if names.count(name) == 1 else visible(text) for name, text in zip(names, given, strict=True)]


def data_of(configs: Iterable[Config | None], purpose: str) -> str:
    """The data set that all these runs were trained on; ValueError if there is none, or several."""
    trained_on = sorted({config.data for config in configs if config is not None})
    if len(trained_on) != 1:
        what = f"the runs were trained on {' and on '.join(trained_on)}" if trained_on else "these are no runs"
        raise ValueError(f"{what}: say {purpose}, --data NAME")
    return trained_on[0]


def embedder_of(options: ModelOptions, images: int) -> tuple[Embedder, str]:
    """An embedder of the first `images` samples of the split, the held-out one by default, and the model's name."""
    device, model, config = options.on, options.load_file(), config_of(options.model)
    policy = policy_name(options, config)
    samples, _ = heldout_samples(config, options.data or (config.data if config else "shapes"), options.split)
    model = model or options.load()
    views = views_for(options, policy, model, samples)
    samples = place(samples.limit(min(images, len(samples))), device)
    forms = {EMBEDDING: form_named(config.form)} if config else {}
    return Embedder(model.embed, samples, views, policy, device, options.batch_size, forms), model.name


def setup_of(
    options: ModelOptions, train: Train = "needed", say: Callable[[str], None] = lambda sentence: None
) -> EvaluationSetup:
    """Set up an evaluation, with defaults from the run's configuration.

    Samples of the split "train" are "needed", "used" if they can be read (otherwise `say` is told), or "unused".
    """
    device, model, config = options.on, options.load_file(), config_of(options.model)
    name = options.data or (config.data if config else None)
    if name is None:
        raise ValueError("say what to evaluate it on: --data NAME")
    policy = policy_name(options, config)
    fitted: Samples | None
    if options.split == "train" and train != "unused":
        (fitted, test), split = _parts_of_train(name), FIFTH
        say(f"measured on {len(test):,} samples of the split train, a fifth that nothing is fitted to")
    else:
        test, split = heldout_samples(config, name, options.split)
        fitted = _train_samples(config, name, options.split, train, say)
    model = model or options.load()
    views = views_for(options, policy, model, test)
    return EvaluationSetup(
        model=model.name,
        embed=model.embed,
        train=None if fitted is None else place(fitted, device),
        test=place(test, device),
        policy=views,
        policy_name=policy,
        form=form_named(config.form if config else "euclidean"),
        device=device,
        module=model.encoder,
        split=split,
        batch_size=options.batch_size,
    )


def _parts_of_train(name: str) -> tuple[Samples, Samples]:
    """Divide the split train into (the samples to fit classifiers to, the last fifth of each class to measure on)."""
    samples = data.load(name, "train")
    return samples.split(max(1, len(samples) // (5 * max(1, len(samples.classes)))))


def _train_samples(
    config: Config | None, name: str, split: str | None, train: Train, say: Callable[[str], None]
) -> Samples | None:
    """The samples to fit classifiers to: the split train, without the validation samples that a run cut from it."""
    if train == "unused":
        return None
    if config is not None and is_cut(config, name, split):
        return data.load(name, config.split).split(config.validation)[0]
    try:
        return data.load(name, "train")
    except (ValueError, OSError) as error:
        if train == "needed":
            raise
        say(f"kNN on the split train is left out: {sentence_of(error)}")
        return None


def heldout_samples(config: Config | None, name: str, split: str | None) -> tuple[Samples, str]:
    """(the samples to measure on, the name of their split): by default the run's validation samples, if it has any."""
    if config is not None and is_cut(config, name, split):
        return data.load(name, config.split).split(config.validation)[1], "validation"
    try:
        chosen = split or heldout_split(name)
    except NoHeldoutSplit as error:
        raise NoHeldoutSplit(f"{error}, or measure a part of what there is: --split train") from None
    return data.load(name, chosen), chosen


def is_cut(config: Config, name: str, split: str | None) -> bool:
    """Whether `name` and `split` mean the validation samples that the run cut off its training split."""
    return name == config.data and config.validation > 0 and split in (None, "validation")


def check_setup(
    model: PretrainedModel, samples: Samples, policy: Policy, policy_name: str, device: torch.device
) -> None:
    """ValueError if there are too few samples, or if the policy or the model does not suit them."""
    if len(samples) < FEWEST:
        raise ValueError(f"{samples.name} has {len(samples)} samples in this split: at least {FEWEST} are needed")
    clouds = len(samples.input_shape) == 1
    if isinstance(policy, PointPolicy) != clouds:
        wanted = "rotations, since it holds point clouds" if clouds else "one for images"
        raise ValueError(f"the policy {policy_name} cannot augment {samples.name}: choose {wanted}")
    few = samples.limit(2)
    views = apply(few.inputs.cpu(), policy.unchanged(2, few.input_shape))  # type: ignore[arg-type]
    model.check(views.to(device))
