"""The models that `care explore` shows side by side, checked before any picture is embedded."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from care import steer
from care.augment import ImagePolicy
from care.cli.errors import print_error
from care.cli.evaluation_setup import check_setup, data_of, heldout_samples, is_run
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
from care.tables import visible
from care.train import Config
from care.train.distributed import resolve_device
from care.train.trained import load_config

OTHER_POLICY = "simclr"  # makes the un-augmented views for models that care did not train
AT_FIRST = 2  # runs of a folder that are embedded at the start if no model is named; the others when chosen


@dataclass(frozen=True, eq=False)
class _Explored:
    """A model, `run` as the user named it, a run's configuration, and its learned rotation or a note why not."""

    name: str
    run: str
    model: PretrainedModel
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
    loaded = [_explored(run, here) for run in named]
    data = name or data_of([one.config for one in loaded] + [run.config for run in found], "which images to show")
    found = runs_on(found, data)
    if not loaded:
        loaded, found = [_explored(str(run.path), here) for run in found[:AT_FIRST]], found[AT_FIRST:]
    samples = _samples([one.config for one in loaded] + [run.config for run in found], data, split)
    if not loaded:
        raise ValueError("all runs that were found embed point clouds, which care explore does not show")
    samples = place(samples.limit(min(images, len(samples))), here)
    check_k(k, len(samples))
    loaded, found_names = _with_distinct_names(loaded, found)
    embedders = [_embedder(one, samples, here) for one in loaded]
    with progress_bars() as progress:
        indexes = [_index(one, embedder, progress) for one, embedder in zip(loaded, embedders, strict=True)]
    lazy = [_lazy_index(run, called, samples, here) for run, called in zip(found, found_names, strict=True)]
    return Gallery([*indexes, *lazy], k)


def _lazy_index(run: FoundRun, name: str, samples: Samples, device: torch.device) -> LazyIndex:
    """A run that is loaded, and embeds the images, once it is chosen; ValueError then if it cannot."""

    def build(progress: ProgressCallback) -> Index:
        one = dataclasses.replace(_explored(str(run.path), device), name=name)
        return _index(one, _embedder(one, samples, device), progress)

    assert isinstance(run.policy, ImagePolicy)
    return LazyIndex(name, run.policy, build)


def _index(one: _Explored, embedder: Embedder, progress: ProgressCallback) -> Index:
    return build_index(one.name, embedder, one.rotation, one.note, progress)


def _explored(run: str, device: torch.device) -> _Explored:
    model, path = load_pretrained(run).to(device), Path(run)
    if not is_run(run):
        return _Explored(model.name, run, model, None, None, "Only runs have a learned rotation R(θ).")
    file = path / "steering" / "rotation.safetensors"
    if not file.exists():
        note = f"{path} has no learned rotation R(θ): care steer {path} fits one, which is then shown here."
        return _Explored(model.name, run, model, load_config(path), None, note)
    return _Explored(model.name, run, model, load_config(path), steer.load(file), "")


def _with_distinct_names(loaded: Sequence[_Explored], found: Sequence[FoundRun]) -> tuple[list[_Explored], list[str]]:
    """Rename runs of the same name, in different folders, to the path that the user gave."""
    names = [one.name for one in loaded] + [run.name for run in found]
    paths = [one.run for one in loaded] + [str(run.path) for run in found]
    called = [name if names.count(name) == 1 else visible(path) for name, path in zip(names, paths, strict=True)]
    renamed = [dataclasses.replace(one, name=name) for one, name in zip(loaded, called, strict=False)]
    return renamed, called[len(loaded) :]


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


def _embedder(one: _Explored, samples: Samples, device: torch.device) -> Embedder:
    policy_name = one.config.equivariance_policy if one.config else OTHER_POLICY
    policy, output = policy_for(policy_name, one.model.size), _output(one)
    check_setup(one.model, samples, policy, policy_name, device)
    embedder = Embedder(lambda x: {output: one.model.embed(x)[output]}, samples, policy, policy_name, device)
    check_rotation(one.name, embedder, one.rotation)
    return embedder


def _output(one: _Explored) -> str:
    """The output that the learned rotation acts on; of a model without one, the first output."""
    outputs = one.model.outputs
    if one.rotation is not None and one.rotation.output not in outputs:
        raise ValueError(
            f"the learned rotation of {one.name} acts on the output {one.rotation.output}, and the model has "
            f"{', '.join(outputs)}: run care steer again"
        )
    return one.rotation.output if one.rotation is not None else outputs[0]
