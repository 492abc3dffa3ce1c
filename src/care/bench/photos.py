"""Rows of `care bench photos`: networks that start from weights in a file and train on photos that are not prepared."""

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from care.bench.clock import Timing
from care.bench.data_waiting import NOTE as WAITING
from care.bench.data_waiting import FedStep
from care.bench.messages import Say, under
from care.bench.phases import phase_seconds
from care.bench.results import Row, Table
from care.bench.roofline import peak_flops
from care.bench.settings import CARE_SETTINGS, Settings
from care.bench.streaming import FILES, WRITERS, endless, given_photos, note, photo_sources, rate
from care.bench.training import peak_memory, step_row
from care.data import Samples
from care.data.streamed.opening import open_pictures, opened_once
from care.objective import build_encoder
from care.train import distributed
from care.train.arithmetic import cudnn_benchmark

NOTES = (
    "Steps of CARE, of networks that start from the weights in a file, as with --init; these weights are random.",
    "The limit: 3 × the encoder's forward FLOPs × views, at the rate of a large matrix product here. Views are drawn,"
    " cut out of whole pictures and augmented; on a GPU, phases are differences between prefixes of the step.",
)


@dataclass(frozen=True)
class PhotoSource:
    """Photos of a source, and how many of them load per second when nothing is done with them."""

    name: str
    samples: Samples
    rate: float


def check_photos(settings: Settings) -> None:
    """ValueError if a network does not exist or does not take photos of this size, or if there are too few photos."""
    if settings.photos is not None and (n := len(open_pictures(Path(settings.photos)))) < settings.batch_size:
        raise ValueError(f"{settings.photos} has {n} pictures, which do not fill one batch of {settings.batch_size}")
    for network in settings.networks:
        with torch.device("meta"):
            build_encoder(dataclasses.replace(settings, model=network).config(), (settings.size, settings.size))


def measure_photos(settings: Settings, say: Say) -> Table:
    """Time each network's step on a batch on the device and on batches from files, the first's from all sources."""
    device, rows = distributed.start(settings.device).device, list[Row]()
    short = dataclasses.replace(settings, seconds=settings.seconds / 2)
    with tempfile.TemporaryDirectory(prefix="care-bench-") as folder, cudnn_benchmark(), opened_once():
        say("a large matrix product")
        peak = peak_flops(device, min(settings.seconds, 1.0))
        sources = [_timed(name, samples, short, say) for name, samples in _chosen_sources(settings, Path(folder), say)]
        for network in settings.networks:
            fed_from = [source for source in sources if not rows or settings.photos or source.name.startswith(FILES)]
            chosen = dataclasses.replace(settings, model=network)
            rows += measure_network(chosen, Path(folder), fed_from, peak, under(say, network))
        said = (*NOTES, note(settings), WAITING)
    title = f"Photos at {settings.size} px, batch {settings.batch_size}, limit {peak / 1e12:.2f} TFLOP/s"
    return Table("photos", title, tuple(rows), said)


def _chosen_sources(settings: Settings, folder: Path, say: Say) -> Iterator[tuple[str, Samples]]:
    """Every kind of source. The GPU's decoder is measured on files only: the other sources hold the same bytes."""
    if settings.photos is not None:
        yield from given_photos(settings, folder, say)
        return
    for name, samples in photo_sources(settings, folder, say):
        if name in WRITERS or name.startswith(FILES):
            yield name, samples


def _timed(name: str, samples: Samples, settings: Settings, say: Say) -> PhotoSource:
    say(f"{name}, by itself: measuring for {settings.seconds:g} s")
    return PhotoSource(name, samples, rate(samples, settings)["samples_per_second"])


def measure_network(
    settings: Settings, folder: Path, sources: Sequence[PhotoSource], peak: float, say: Say
) -> list[Row]:
    """Time a step on a batch on the device, with its phases, and on the batches of every source."""
    with peak_memory(torch.device(settings.device)) as memory:
        fed, batch = FedStep(settings, init=random_weights(settings, folder)), _first(sources[0].samples, settings)
        timing = fed.time_alone(batch, say)
    alone = alone_row(fed, batch, timing, peak, say)
    rows = [{"name": f"{settings.model}, a batch that is there", **alone, **memory}]
    for source in sources:
        found = fed.measure(endless(source.samples, settings), under(say, f"fed from {source.name}"))
        fast = {"samples_per_second": 1e3 * settings.batch_size / found["ms_per_step"], "source_rate": source.rate}
        rows.append({"name": f"{settings.model}, {source.name}", **fast, **found})
    fed.forget()
    return rows


def alone_row(fed: FedStep, batch: Tensor, timing: Timing, peak: float, say: Say) -> Row:
    """The time of a step on one batch, the shares of it that views and both passes take, and its share of the limit."""
    step = fed.step
    assert step is not None
    say(f"{1e3 * timing.median:.1f} ms a step, measuring its phases")
    phases = phase_seconds(step, batch, timing.median, fed.settings.seconds)
    whole = sum(phases.values())
    shares = {"views_share": phases["draw"] / whole, "passes_share": (phases["forward"] + phases["backward"]) / whole}
    row = step_row(step.config, fed.settings.size, timing, peak) | shares
    say(f"views {shares['views_share']:.1%} of a step, {row['share_of_limit']:.1%} of the limit")
    return row | {f"{name}_ms": 1e3 * value for name, value in phases.items()}


def _first(samples: Samples, settings: Settings) -> Tensor:
    stream = endless(samples, settings)
    try:
        return next(stream)
    finally:
        stream.close()


def random_weights(settings: Settings, folder: Path) -> str:
    """Write random weights of the network to a file, and return its name for `--init`."""
    size, file = (settings.size, settings.size), folder / f"{settings.model}.safetensors"
    encoder = build_encoder(settings.config(**CARE_SETTINGS, stem="imagenet"), size)
    safetensors.torch.save_file({key: x.contiguous() for key, x in encoder.backbone.state_dict().items()}, file)
    return f"timm/{settings.model}@{file}"
