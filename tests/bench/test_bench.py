"""`care bench`: what it counts and what it writes, whatever the clock says."""

import io
import json
import math
import mmap
import re
import statistics
import time
from importlib.metadata import version

import pytest
import torch
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import care
from care.augment import ImagePolicy
from care.bench import Table, chosen_parts, clock, default_settings, loader
from care.bench.baseline import Baseline, PictureViews
from care.bench.loader import own_memory
from care.bench.phases import PHASES, Phases, by_prefixes, one_by_one
from care.bench.roofline import forward_flops, step_flops
from care.bench.settings import CARE_SETTINGS, METHODS
from care.bench.streaming import photos_of
from care.bench.training import build_step
from care.cli import app
from care.randomness import derive
from care.train import distributed

CPU = torch.device("cpu")
CALM = {"flip": 0.0, "color": 0.0, "gray": 0.0, "blur": 0.0}
TINY = default_settings("cpu", batch_size=8, size=16, seconds=0.01, images=20)


def run(*args, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """What a run of the parts that need no other process of care printed on both streams, and what it wrote."""
    out = tmp_path_factory.mktemp("bench") / "deep" / "bench.json"
    sizes = ("--device", "cpu", "--batch-size", 8, "--size", 16, "--seconds", 0.01, "--images", 20)
    result = run("train", "augment", "loader", *sizes, "--out", out)
    return result.stdout, result.stderr, json.loads(out.read_text())


@pytest.fixture(scope="module")
def measured(bench):
    """What was printed as a result, and what was written."""
    return bench[0], bench[2]


def test_it_says_what_it_does_behind_the_seconds(bench):
    """Each row before it is measured, and as soon as its first step is done how long that took."""
    lines = bench[1].splitlines()
    seconds = [float(line.split(" s  ")[0]) for line in lines]
    assert seconds == sorted(seconds)
    said = [line.split(" s  ", 1)[1] for line in lines]
    assert said[0].endswith("test_resnet, batch 8, 16 px, not compiled")
    for name in METHODS:
        about = f"train: test_resnet at 16 px, {name}"
        first, second, third = (line for line in said if line.startswith(f"{about}: "))
        assert first == f"{about}: building …"
        assert re.fullmatch(rf"{re.escape(about)}: first step after [\d.]+ s, measuring for 0.01 s", second)
        assert third.endswith("ms a step, measuring its phases")
    plain = [line for line in said if line.startswith("train: test_resnet at 16 px, CARE, plain PyTorch loop: ")]
    assert plain[0].endswith("0 workers: building …")
    assert "augment: care, eager: 32 views of 16 px" in said
    assert "loader: writing 20 images of 16 px: 0%" in said
    assert any(line.startswith("loader: first pass") for line in said)


def test_a_long_store_is_counted(monkeypatch):
    monkeypatch.setattr(loader, "SECONDS_BETWEEN_LINES", -1.0)
    said = []
    assert list(loader._counted(4, said.append)) == [0, 1, 2, 3]
    assert said == ["0%", "25%", "50%", "75%"]


def test_the_table_has_the_rows(measured):
    text, _ = measured
    loops = [f"{name}, plain PyTorch loop" for name in ("SimCLR", "CARE")]
    for name in (*METHODS, *loops, "care, eager", "torchvision v2", "MB/s"):
        assert name in text
    assert "kornia is not installed" in text or "kornia " in text


def test_the_json_is_complete(measured):
    _, record = measured
    assert record["machine"]["care"] == care.__version__
    assert record["machine"]["torch"] == version("torch")
    assert {"gpu", "cpus", "threads"} <= set(record["machine"])
    assert record["settings"]["batch_size"] == 8
    assert set(record["tables"]) == {"train", "augment", "loader"}
    for row in record["tables"]["train"]["rows"]:
        assert row["samples_per_second"] == pytest.approx(8e3 / row["ms_per_step"])
        assert row["share_of_limit"] == pytest.approx(
            row["flops_per_step"] / row["ms_per_step"] * 1e3 / row["peak_flops"]
        )
        assert row["fastest_ms"] <= row["ms_per_step"] <= row["slowest_ms"]


def test_ratios_are_those_of_the_rates(measured):
    rows = {row["name"]: row for row in measured[1]["tables"]["train"]["rows"]}
    theirs = rows["CARE, plain PyTorch loop"]
    for name in ("CARE", "CARE, joint BatchNorm"):
        assert rows[name]["ratio"] == pytest.approx(rows[name]["samples_per_second"] / theirs["samples_per_second"])
    assert theirs["samples_per_second"] == max(tried["samples_per_second"] for tried in theirs["tried"])
    assert "ratio" not in rows["MoCo-v2 + CARE"]


def test_the_loader_counts_the_bytes_of_images(measured):
    first, more, *streamed = measured[1]["tables"]["loader"]["rows"]
    for row in (first, more):
        assert row["mb_per_second"] == pytest.approx(row["samples_per_second"] * 3 * 16 * 16 / 1e6)
    assert abs(more["own_memory_growth_mb"]) < 100
    kinds = ("JPEG files", "JPEG files, from a cache", "tar shards", "Parquet", "Arrow")
    assert [row["name"] for row in streamed] == [f"not prepared, {kind}" for kind in kinds]
    for row in streamed:  # decoded to 8/7 of a view
        assert row["mb_per_second"] == pytest.approx(row["samples_per_second"] * 3 * 19 * 19 / 1e6)


def test_photos_that_are_decoded_are_about_as_large_as_photos():
    """ImageNet's have 0.6 bytes a pixel: 110 kB of 500 × 375."""
    photos = photos_of(224)
    assert Image.open(io.BytesIO(photos[0])).size == (504, 378)
    assert 0.3 < len(photos[0]) / (504 * 378) < 0.9
    assert len(set(photos)) == len(photos)


def test_own_memory_is_what_was_allocated():
    """From the system itself: an allocator may have had that much left over from other tests."""
    before = own_memory()
    with mmap.mmap(-1, 50_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for _ in range(50):
            block.write(bytes([1]) * 1_000_000)
        assert own_memory() - before == pytest.approx(50, abs=5)
    assert own_memory() - before == pytest.approx(0, abs=5)


def test_operations_of_a_small_network_by_hand():
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Flatten(), nn.Linear(4 * 8 * 8, 5))
    assert forward_flops(network, 8) == 2 * (8 * 8 * 4 * 3 * 3 * 3) + 2 * (4 * 8 * 8 * 5)


def test_a_step_counts_its_views():
    """SimCLR trains two views and CARE four; MoCo's keys only go forward."""
    simclr_, care_, joint, moco = (step_flops(TINY.config(**chosen), 16) for chosen in METHODS.values())
    assert care_ == joint == 2 * simclr_
    assert moco * 12 == care_ * 10
    assert simclr_ % (2 * 3 * TINY.batch_size) == 0


@pytest.mark.parametrize(
    ("blocks", "kept"), [((3, 1, 2, 2.5, 1.5), 5), ((1, 9.5, 2, 0.1, 1), 2), ((0.5, 0.25, 1, 2, 3), 5)]
)
def test_times_are_medians_over_blocks(blocks, kept, monkeypatch):
    """A clock that shows what we want: of a call that compiles, of one that tells how many fill a block, of blocks."""
    ticks = iter([tick for seconds in (37, 1, *blocks) for tick in (0.0, float(seconds))])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(ticks))
    calls, first = [], []
    timing = clock.time_calls(lambda: calls.append(None), CPU, seconds=5.0, warmup=3, begun=first.append)
    assert first == [37.0]
    assert timing.median == statistics.median(blocks[:kept])
    assert (timing.fastest, timing.slowest, timing.calls) == (min(blocks[:kept]), max(blocks[:kept]), kept)
    assert len(calls) == 3 + 1 + kept


def test_calls_that_take_longer_than_planned_are_timed_once(monkeypatch):
    """A burst of four calls of 2 s where 5 s were planned: no second one."""
    ticks = iter([0.0, 37.0, 0.0, 8.0])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(ticks))
    timing = clock.time_calls(lambda: None, CPU, seconds=5.0, multiple=4)
    assert timing == clock.Timing(2.0, 2.0, 2.0, 4)


def test_blocks_are_whole_bursts():
    assert clock.time_calls(lambda: time.sleep(1e-3), CPU, seconds=0.05, multiple=7).calls % 7 == 0


@pytest.mark.parametrize("method", ["CARE", "MoCo-v2 + CARE"])
def test_phases_are_those_of_a_step(method):
    """After the same random numbers, one pass through the phases and one `Step` leave the same parameters."""
    images, processes = TINY.random_images(8), distributed.start("cpu")
    step, other = (build_step(TINY, processes, **METHODS[method]) for _ in range(2))
    step([images], epoch=0)
    phases = Phases(other, images)
    phases.generator.manual_seed(derive(0, "augment", 0, 0, 0))
    other.state.objective.train()
    phases.until("update")
    for ours, theirs in zip(
        step.state.objective.state_dict().values(), other.state.objective.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_phases_are_timed_and_leave_nothing_behind():
    step = build_step(TINY, distributed.start("cpu"), **METHODS["MoCo-v2 + CARE"])
    phases = Phases(step, TINY.random_images(8))
    assert min(one_by_one(phases, seconds=0.01).values()) > 0
    before = next(step.state.objective.encoder.parameters()).detach().clone()
    found = by_prefixes(phases, 10.0, seconds=0.01, capture=lambda function, _: function)
    assert tuple(found) == PHASES
    assert sum(found.values()) == pytest.approx(10.0)
    assert found["update"] > 5
    assert torch.equal(next(step.state.objective.encoder.parameters()), before)
    assert not step.state.objective.method.keys


def test_the_baseline_trains_on_as_many_views():
    for chosen in ({}, CARE_SETTINGS):
        baseline = Baseline(TINY, CPU, workers=0, **chosen)
        views = next(baseline.batches)
        assert [tuple(view.shape) for view in views] == [(8, 3, 16, 16)] * (4 if chosen else 2)
        stem = next(baseline.encoder.parameters())
        before = stem.detach().clone()
        assert math.isfinite(baseline())
        assert not torch.equal(stem, before)


def test_the_baseline_augments_as_the_policy_says(generator):
    """A crop of everything and nothing else is the picture; with a certain flip, its mirror image."""
    image = torch.randint(256, (1, 3, 16, 16), dtype=torch.uint8, generator=generator)
    plain, flipped, grays = (
        PictureViews(image, ImagePolicy(size=16, scale=(1.0, 1.0), ratio=(1.0, 1.0), **CALM | certain), 3)[0]
        for certain in ({}, {"flip": 1.0}, {"gray": 1.0})
    )
    assert len(plain) == len(flipped) == len(grays) == 3
    assert all(torch.allclose(view, image[0] / 255) for view in plain)
    assert all(torch.allclose(view, image[0].flip(-1) / 255) for view in flipped)
    assert all(torch.equal(view[0], view[1]) for view in grays)


def test_numbers_that_are_missing_are_dashes():
    table = Table("x", "Title", ({"name": "a", "samples_per_second": 1234.5}, {"name": "b", "ratio": 2.0, "odd": 1}))
    text = table.text()
    assert "1,234" in text
    assert "–" in text
    assert "odd" not in text
    assert table.to_json()["rows"][1]["odd"] == 1


def test_parts_come_in_their_order():
    assert chosen_parts(["loader", "train"]) == ["train", "loader"]
    assert chosen_parts([]) == ["train", "augment", "loader", "scaling", "start"]
    assert chosen_parts(["all"]) == [*chosen_parts([]), "methods", "photos"]


@pytest.mark.parametrize("batch", [4, 6, 7, 64, 100, 256])
def test_chunks_divide_any_batch(batch):
    settings = default_settings("cpu", batch_size=batch)
    assert settings.config(**CARE_SETTINGS).flat()["chunks"] == settings.chunks <= 16
    assert default_settings("cpu", batch_size=256).chunks == 16


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["trian"], "no part of the benchmark is called 'trian'; there are train, augment"),
        (["--batch-size", "2"], "at least 4 images are needed"),
        (["--seconds", "0"], "a row needs a positive number of seconds"),
        (["--processes", "1,two"], "expected numbers of processes such as 1,2,4, got '1,two'"),
        (["--processes", "0"], "must be in [1, 1024]"),
        (["--model", "resnet19"], "timm has no model 'resnet19'"),
        (["--size", "2"], "size must be at least 8"),
        (["--images", "10"], "does not fill one batch of 64"),
        (["--device", "gpu0"], "device must be auto, cpu, cuda, cuda:1 or mps, got 'gpu0'"),
    ],
)
def test_mistakes_are_told_in_one_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run("--device", "cpu", *args, code=2).output
    assert not list(tmp_path.iterdir())
