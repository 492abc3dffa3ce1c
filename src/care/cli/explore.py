"""`care explore`: change an image by hand, and watch what the models take for its neighbors."""

import dataclasses
import signal
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer

from care import steer
from care.cli.mistakes import users_input
from care.cli.progress import progress_bars
from care.cli.studies import check_study, heldout_samples
from care.data import Samples, place
from care.evaluate import Observer
from care.explore import ExploreServer, Gallery, fill_bank
from care.objective import policy_for
from care.pretrained import PretrainedModel, load_pretrained, only, steerable
from care.steer import Steering
from care.tables import visible
from care.train import Config
from care.train.distributed import resolve_device
from care.train.runs import load_trained

OTHER_POLICY = "simclr"  # what un-augmented views of models are that were not trained here


def explore(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run folders, or any models that [bold]care measure[/bold] takes, on one data set."),
    ],
    name: Annotated[
        str | None, typer.Option("--data", help="A data set. Default: what the runs were trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: what the runs held out, test or val.")] = None,
    images: Annotated[int, typer.Option(min=20, help="The first so many images of the split.")] = 10_000,
    k: Annotated[int, typer.Option("--k", min=1, max=100, help="How many neighbors to show.")] = 8,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes one that is free.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page for this machine: pick an image, move sliders, and see the nearest neighbors of f(a(x)) change.

    Beside them, for runs that [bold]care steer[/bold] knows, those of the prediction R(θ) f(x). Ctrl-C ends it.

    Example: [bold]care explore runs/simclr runs/mine[/bold]
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # also where a shell has us ignore them
    try:
        with users_input():
            server = ExploreServer(port)
        with server:
            with users_input():
                gallery = _gallery(runs, name, split, images, k, torch.device(resolve_device(device)))
            typer.echo(f"{server.address}   (Ctrl-C ends it)")
            if open_page:
                webbrowser.open(server.address)
            server.serve(gallery)
    except KeyboardInterrupt:
        typer.echo("", err=True)  # the terminal has written ^C


@dataclass(frozen=True, eq=False)
class _Guest:
    """A model to explore, with its configuration if it is a run, its steering if it has one, and a note if not."""

    name: str
    subject: PretrainedModel
    config: Config | None
    steering: Steering | None
    note: str


def _gallery(
    runs: Sequence[str], name: str | None, split: str | None, images: int, k: int, device: torch.device
) -> Gallery:
    guests = _told_apart([_guest(run, device) for run in runs], runs)
    samples = _samples([guest.config for guest in guests], name, split)
    if len(samples.source) == 1:
        raise ValueError(f"care explore shows images, and {samples.name} holds point clouds: care steer measures these")
    samples = place(samples.limit(min(images, len(samples))), device)
    observers = [_observer(guest, samples, device) for guest in guests]
    with progress_bars() as watch:
        banks = [
            fill_bank(guest.name, observer, guest.steering, guest.note, watch)
            for guest, observer in zip(guests, observers, strict=True)
        ]
    return Gallery(banks, k)


def _guest(run: str, device: torch.device) -> _Guest:
    subject, path = load_pretrained(run).to(device), Path(run)
    if not path.is_dir():
        return _Guest(subject.name, subject, None, None, "Only runs have a steering.")
    file = path / "steering" / "steering.safetensors"
    if not file.exists():
        note = f"No steering is in {path}: care steer {path} makes one, and its neighbors are shown here, too."
        return _Guest(subject.name, subject, load_trained(path).config, None, note)
    return _Guest(subject.name, subject, load_trained(path).config, steer.load(file), "")


def _told_apart(guests: Sequence[_Guest], runs: Sequence[str]) -> list[_Guest]:
    """Runs of the same name, in different folders, are called what the user called them."""
    names = [guest.name for guest in guests]
    return [
        guest if names.count(guest.name) == 1 else dataclasses.replace(guest, name=visible(run))
        for guest, run in zip(guests, runs, strict=True)
    ]


def _samples(configs: Sequence[Config | None], name: str | None, split: str | None) -> Samples:
    """What the runs held out of their data, all of them the same, or else what was asked for."""
    known = [config for config in configs if config is not None]
    trained_on = sorted({config.data for config in known})
    if name is None and len(trained_on) != 1:
        what = f"the runs were trained on {' and on '.join(trained_on)}" if trained_on else "these are no runs"
        raise ValueError(f"{what}: say which images to look at, --data NAME")
    chosen = name or trained_on[0]
    cuts = {(config.split, config.validation): config for config in known if config.data == chosen}
    return heldout_samples(next(iter(cuts.values())) if len(cuts) == 1 else None, chosen, split)[0]


def _observer(guest: _Guest, samples: Samples, device: torch.device) -> Observer:
    policy_name = guest.config.equivariance_policy if guest.config else OTHER_POLICY
    policy = policy_for(policy_name, guest.subject.size)
    check_study(guest.subject, samples, policy, policy_name, device)
    return Observer(only(guest.subject.embed, _output(guest)), samples, policy, policy_name, device)


def _output(guest: _Guest) -> str:
    """Where its steering was fitted; of a model without one, what it would be fitted to."""
    choices = steerable(guest.subject.outputs)
    if guest.steering is not None and guest.steering.output not in choices:
        raise ValueError(
            f"the steering of {guest.name} is of its output {guest.steering.output}, and it has {', '.join(choices)}: "
            "run care steer again"
        )
    return guest.steering.output if guest.steering is not None else choices[0]
