"""The models that `care explore` shows side by side, checked before any picture is embedded."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from care import steer
from care.cli.progress import progress_bars
from care.cli.studies import check_study, heldout_samples
from care.data import Samples, place
from care.evaluate import Observer
from care.explore import Gallery, check_k, check_rotation, fill_bank
from care.objective import policy_for
from care.pretrained import PretrainedModel, load_pretrained
from care.steer import LearnedRotation
from care.tables import visible
from care.train import Config
from care.train.distributed import resolve_device
from care.train.runs import load_trained

OTHER_POLICY = "simclr"  # the policy whose un-augmented views models of others get


@dataclass(frozen=True, eq=False)
class _Explored:
    """A model, the configuration if it is a run, and its learned rotation, or a note where it has none."""

    name: str
    model: PretrainedModel
    config: Config | None
    rotation: LearnedRotation | None
    note: str


def explored_gallery(
    runs: Sequence[str], name: str | None, split: str | None, images: int, k: int, device: str
) -> Gallery:
    """The embeddings of the images by every model; ValueError, before any is computed, if they cannot be shown."""
    here = torch.device(resolve_device(device))
    models = _with_distinct_names([_explored(run, here) for run in runs], runs)
    samples = _samples([one.config for one in models], name, split)
    if len(samples.source) == 1:
        raise ValueError(f"care explore shows images, and {samples.name} holds point clouds: care steer measures these")
    samples = place(samples.limit(min(images, len(samples))), here)
    check_k(k, len(samples))
    observers = [_observer(one, samples, here) for one in models]
    with progress_bars() as watch:
        banks = [
            fill_bank(one.name, observer, one.rotation, one.note, watch)
            for one, observer in zip(models, observers, strict=True)
        ]
    return Gallery(banks, k)


def _explored(run: str, device: torch.device) -> _Explored:
    model, path = load_pretrained(run).to(device), Path(run)
    if not path.is_dir():
        return _Explored(model.name, model, None, None, "Only runs have a learned rotation R(θ).")
    file = path / "steering" / "rotation.safetensors"
    if not file.exists():
        note = f"{path} has no learned rotation R(θ): care steer {path} fits one, which is then shown here."
        return _Explored(model.name, model, load_trained(path).config, None, note)
    return _Explored(model.name, model, load_trained(path).config, steer.load(file), "")


def _with_distinct_names(models: Sequence[_Explored], runs: Sequence[str]) -> list[_Explored]:
    """Runs of the same name, in different folders, are called by the path that the user gave."""
    names = [one.name for one in models]
    return [
        one if names.count(one.name) == 1 else dataclasses.replace(one, name=visible(run))
        for one, run in zip(models, runs, strict=True)
    ]


def _samples(configs: Sequence[Config | None], name: str | None, split: str | None) -> Samples:
    """The images that the runs held out, if these are the same for all, or those of `name` and `split`."""
    known = [config for config in configs if config is not None]
    trained_on = sorted({config.data for config in known})
    if name is None and len(trained_on) != 1:
        what = f"the runs were trained on {' and on '.join(trained_on)}" if trained_on else "these are no runs"
        raise ValueError(f"{what}: say which images to show, --data NAME")
    chosen = name or trained_on[0]
    cuts = {(config.split, config.validation): config for config in known if config.data == chosen}
    return heldout_samples(next(iter(cuts.values())) if len(cuts) == 1 else None, chosen, split)[0]


def _observer(one: _Explored, samples: Samples, device: torch.device) -> Observer:
    policy_name = one.config.equivariance_policy if one.config else OTHER_POLICY
    policy, output = policy_for(policy_name, one.model.size), _output(one)
    check_study(one.model, samples, policy, policy_name, device)
    observer = Observer(lambda x: {output: one.model.embed(x)[output]}, samples, policy, policy_name, device)
    check_rotation(one.name, observer, one.rotation)
    return observer


def _output(one: _Explored) -> str:
    """The output that the learned rotation acts on; of a model without one, the first output."""
    outputs = one.model.outputs
    if one.rotation is not None and one.rotation.output not in outputs:
        raise ValueError(
            f"the learned rotation of {one.name} acts on the output {one.rotation.output}, and the model has "
            f"{', '.join(outputs)}: run care steer again"
        )
    return one.rotation.output if one.rotation is not None else outputs[0]
