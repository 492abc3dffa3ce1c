"""The models that `care explore` shows side by side, checked before any picture is embedded."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from care import steer
from care.augment import ImagePolicy
from care.cli.errors import print_error
from care.cli.evaluation_setup import check_setup, data_of, distinct_names, heldout_samples, is_run
from care.cli.found_runs import FoundRun, find_runs, runs_on
from care.cli.progress import progress_bars
from care.data import Samples, place
from care.data.registry import NoHeldoutSplit
from care.evaluate import Embedder
from care.explore import Gallery, Index, LazyIndex, build_index, check_k, check_rotation
from care.objective import policy_for
from care.pretrained import PretrainedModel, load_pretrained
from care.progress import ProgressCallback
from care.steer import LearnedRotation
from care.train import Config
from care.train.distributed import resolve_device
from care.train.trained import load_config

OTHER_POLICY = "simclr"  # makes the un-augmented views for models that care did not train
AT_FIRST = 2  # runs of a folder that are embedded at the start if no model is named; the others when chosen


@dataclass(frozen=True, eq=False)
class _ShownModel:
    """A model, `run` as the user named it, a run's configuration, and its learned rotation or a note why not."""

    name: str
    run: str
    network: PretrainedModel
    config: Config | None
    rotation: LearnedRotation | None
    note: str


def explored_gallery(
    runs: Sequence[str], name: str | None, split: str | None, images: int, k: int, device: str
) -> Gallery:
    """A gallery of the indexes of every named model, and lazy ones of the runs in named folders.

    Without a named model, the first runs of the folders are embedded. ValueError, before any picture is embedded, if
    the models cannot be shown.
    """
    here = torch.device(resolve_device(device))
    named, found = find_runs(runs, print_error)
    loaded = [_load_shown(run, here) for run in named]
    data = name or data_of([model.config for model in loaded] + [run.config for run in found], "which images to show")
    found = runs_on(found, data)
    if not loaded:
        loaded, found = [_load_shown(str(run.path), here) for run in found[:AT_FIRST]], found[AT_FIRST:]
    samples = _samples([model.config for model in loaded] + [run.config for run in found], data, split)
    if not loaded:
        raise ValueError("all runs that were found embed point clouds, which care explore does not show")
    samples = place(samples.limit(min(images, len(samples))), here)
    check_k(k, len(samples))
    names = [model.name for model in loaded] + [run.name for run in found]
    names = distinct_names(names, [model.run for model in loaded] + [str(run.path) for run in found])
    loaded = [dataclasses.replace(model, name=name) for model, name in zip(loaded, names, strict=False)]
    embedders = [_embedder(model, samples, here) for model in loaded]
    with progress_bars() as progress:
        indexes = [_index(model, embedder, progress) for model, embedder in zip(loaded, embedders, strict=True)]
    lazy = [_lazy_index(run, name, samples, here) for run, name in zip(found, names[len(loaded) :], strict=True)]
    return Gallery([*indexes, *lazy], k)


def _lazy_index(run: FoundRun, name: str, samples: Samples, device: torch.device) -> LazyIndex:
    """A run that is loaded, and embeds the images, once it is chosen; ValueError then if it cannot."""

    def build(progress: ProgressCallback) -> Index:
        model = dataclasses.replace(_load_shown(str(run.path), device), name=name)
        return _index(model, _embedder(model, samples, device), progress)

    assert isinstance(run.policy, ImagePolicy)
    return LazyIndex(name, run.policy, build)


def _index(model: _ShownModel, embedder: Embedder, progress: ProgressCallback) -> Index:
    return build_index(model.name, embedder, model.rotation, model.note, progress)


def _load_shown(run: str, device: torch.device) -> _ShownModel:
    network, path = load_pretrained(run).to(device), Path(run)
    if not is_run(run):
        return _ShownModel(network.name, run, network, None, None, "Only runs have a learned rotation R(θ).")
    file = path / "steering" / "rotation.safetensors"
    if not file.exists():
        note = f"{path} has no learned rotation R(θ): care steer {path} fits one, which is then shown here."
        return _ShownModel(network.name, run, network, load_config(path), None, note)
    return _ShownModel(network.name, run, network, load_config(path), steer.load(file), "")


def _samples(configs: Sequence[Config | None], data: str, split: str | None) -> Samples:
    """The images of `split`, by default those that the runs held out, if these are the same for all runs."""
    known = [config for config in configs if config is not None]
    cuts = {(config.split, config.validation): config for config in known if config.data == data}
    try:
        samples = heldout_samples(next(iter(cuts.values())) if len(cuts) == 1 else None, data, split)[0]
    except NoHeldoutSplit as error:
        raise (ValueError(_different(cuts, data)) if len(cuts) > 1 else error) from None
    if len(samples.input_shape) == 1:
        raise ValueError(f"care explore shows images, and {samples.name} holds point clouds: care steer measures these")
    return samples


def _different(cuts: Collection[tuple[str, int]], data: str) -> str:
    """The message for runs that held out different parts of the data."""
    ways = " and ".join(f"--validation {n} of {split}" for split, n in sorted(cuts))
    return f"the runs held out different samples of {data}, {ways}: say which split to show, --split train"


def _embedder(model: _ShownModel, samples: Samples, device: torch.device) -> Embedder:
    policy_name = model.config.equivariance_policy if model.config else OTHER_POLICY
    policy, output = policy_for(policy_name, model.network.size), _output(model)
    check_setup(model.network, samples, policy, policy_name, device)
    embedder = Embedder(lambda x: {output: model.network.embed(x)[output]}, samples, policy, policy_name, device)
    check_rotation(model.name, embedder, model.rotation)
    return embedder


def _output(model: _ShownModel) -> str:
    """The output that the learned rotation acts on; of a model without one, the first output."""
    outputs = model.network.outputs
    if model.rotation is not None and model.rotation.output not in outputs:
        raise ValueError(
            f"the learned rotation of {model.name} acts on the output {model.rotation.output}, and the model has "
            f"{', '.join(outputs)}: run care steer again"
        )
    return model.rotation.output if model.rotation is not None else outputs[0]
