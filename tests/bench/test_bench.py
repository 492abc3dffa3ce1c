"""`care bench`: what it counts and what it writes, whatever the clock says."""

import json
import math
import statistics
import subprocess
import sys
import time
from importlib.metadata import version

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from typer.testing import CliRunner

import care
from care.augment import simclr
from care.bench import Table, chosen_parts, clock, default_settings, process, scaling
from care.bench.baseline import Baseline, PictureViews, torchvision_transform
from care.bench.limit import forward_flops, step_flops
from care.bench.loader import own_memory
from care.bench.phases import PHASES, phase_seconds
from care.bench.settings import CARE_SETTINGS, METHODS
from care.bench.traffic import traffic, traffic_of
from care.bench.training import build_step
from care.cli import app
from care.train import distributed

CPU = torch.device("cpu")
TINY = default_settings("cpu", batch_size=8, size=16, seconds=0.01, images=20)


def run(*args, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """(what was printed, what was written) by a run of the parts that need no other process of care."""
    out = tmp_path_factory.mktemp("bench") / "deep" / "bench.json"
    sizes = ("--device", "cpu", "--batch-size", 8, "--size", 16, "--seconds", 0.01, "--images", 20)
    return run("train", "augment", "loader", *sizes, "--out", out), json.loads(out.read_text())


def test_the_table_has_the_rows(measured):
    text, _ = measured
    for name in (*METHODS, "SimCLR, authors' way", "CARE, authors' way", "care, eager", "torchvision v2", "MB/s"):
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
    theirs = rows["CARE, authors' way"]
    for name in ("CARE", "CARE, joint BatchNorm"):
        assert rows[name]["ratio"] == pytest.approx(rows[name]["samples_per_second"] / theirs["samples_per_second"])
    assert theirs["samples_per_second"] == max(tried["samples_per_second"] for tried in theirs["tried"])
    assert "ratio" not in rows["MoCo-v2 + CARE"]


def test_the_loader_counts_the_bytes_of_images(measured):
    first, more = measured[1]["tables"]["loader"]["rows"]
    for row in (first, more):
        assert row["mb_per_second"] == pytest.approx(row["samples_per_second"] * 3 * 16 * 16 / 1e6)
    assert abs(more["own_memory_growth_mb"]) < 100


def test_own_memory_is_what_was_allocated():
    before = own_memory()
    block = torch.ones(50_000_000, dtype=torch.uint8)
    assert own_memory() - before == pytest.approx(50, abs=5)
    assert block.any()


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
    ("blocks", "kept"), [((3, 1, 2, 2.5, 1.5), 5), ((1, 9, 2, 0.1, 1), 2), ((0.5, 0.25, 1, 2, 3), 5)]
)
def test_times_are_medians_over_blocks(blocks, kept, monkeypatch):
    """A clock that shows what we want: one call to find out how many fill a block (here one), then the blocks."""
    ticks = iter([tick for seconds in (1, *blocks) for tick in (0, seconds)])
    monkeypatch.setattr(clock.time, "perf_counter", lambda: next(ticks))
    calls = []
    timing = clock.time_calls(lambda: calls.append(None), CPU, seconds=5, warmup=3)
    assert timing.median == statistics.median(blocks[:kept])
    assert (timing.fastest, timing.slowest, timing.calls) == (min(blocks[:kept]), max(blocks[:kept]), kept)
    assert len(calls) == 3 + 1 + kept


def test_blocks_are_whole_bursts():
    assert clock.time_calls(lambda: time.sleep(1e-3), CPU, seconds=0.05, multiple=7).calls % 7 == 0


@pytest.mark.parametrize("method", ["CARE", "MoCo-v2 + CARE"])
def test_phases_add_up_and_leave_nothing_behind(method):
    step = build_step(TINY, distributed.start("cpu"), **METHODS[method])
    phases = phase_seconds(step, TINY.random_images(8), whole=10.0, seconds=0.01)
    assert tuple(phases) == PHASES
    assert sum(phases.values()) == pytest.approx(10.0)
    assert phases["update"] > 5
    assert not getattr(step.state.method, "keys", [])


def test_the_baseline_trains_on_as_many_views():
    for chosen in ({}, CARE_SETTINGS):
        baseline = Baseline(TINY, CPU, workers=0, **chosen)
        views = next(baseline.batches)
        assert [tuple(view.shape) for view in views] == [(8, 3, 16, 16)] * (4 if chosen else 2)
        before = [p.clone() for p in baseline.encoder.parameters()]
        assert math.isfinite(baseline())
        assert all(not torch.equal(a, b) for a, b in zip(before, baseline.encoder.parameters(), strict=True))


def test_the_baseline_augments_as_the_policy_says(generator):
    """A crop of everything and nothing else is the picture; with a certain flip, its mirror image."""
    image = torch.randint(256, (1, 3, 16, 16), dtype=torch.uint8, generator=generator)
    policy = simclr(16).only("crop", "flip")
    whole = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0)}
    plain, flipped = (
        PictureViews(image, policy.__class__(size=16, flip=flip, color=0, gray=0, blur=0, **whole), 3)[0]
        for flip in (0.0, 1.0)
    )
    assert len(plain) == 3
    assert all(torch.equal(view, image[0] / 255) for view in plain)
    assert all(torch.equal(view, image[0].flip(-1) / 255) for view in flipped)
    grays = torchvision_transform(policy.__class__(size=16, color=0, gray=1.0, blur=0, **whole))(image[0])
    assert torch.equal(grays[0], grays[1])


def test_bytes_by_hand():
    """4 processes send 3/4 of what is gathered and twice 3/4 of what is summed."""
    sent = traffic(4, batch=8, dimension=16, parameters=1000, channels=[3, 5], groups=2)
    assert sent.embedding_bytes == 3 * 3 / 4 * (2 * 8 * 16 * 4)
    assert sent.gradient_bytes == 2 * 3 / 4 * 4000
    assert sent.batchnorm_bytes == 2 * (2 * 3 / 4 * 4 * ((2 * 2 * 3 + 1) + (2 * 2 * 5 + 1)))
    assert set(vars(traffic(1, 8, 16, 1000, [3], 2)).values()) == {0}


def test_bytes_are_those_of_the_messages(monkeypatch):
    """Two processes, of which one is imagined: every message of a step is counted as it is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        sent = []
        reduce, gather = dist.all_reduce, dist.all_gather
        monkeypatch.setattr(dist, "all_reduce", lambda x, *a, **k: (sent.append(2 * x.nbytes // 2), reduce(x, *a, **k)))
        monkeypatch.setattr(
            dist, "all_gather", lambda parts, x: (sent.append(sum(p.nbytes for p in parts) // 2), gather(parts, x))
        )
        method = build_step(TINY, distributed.Processes(0, 2, CPU), **CARE_SETTINGS).state.method
        sent.clear()
        views = torch.rand(4, 8, 3, 16, 16)
        method.loss.total(method(*views)).backward()
        formula = traffic_of(method, processes=2, batch=16, dimension=128)
    finally:
        dist.destroy_process_group()
    assert sum(sent) == formula.embedding_bytes + formula.batchnorm_bytes
    assert formula.gradient_bytes == 4 * sum(p.numel() for p in method.parameters())


def test_two_processes_measure_together():
    row = scaling._together(TINY, number=2, threads=1)
    assert row["samples_per_second"] == pytest.approx(2 * 8e3 / row["ms_per_step"])
    assert min(row["gather_ms"], row["average_ms"], row["batchnorm_bytes"]) > 0


def test_one_process_sends_nothing(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    process.main("scaling", scaling._encoded(TINY), "unused")
    row = json.loads(capsys.readouterr().out)
    assert row["gather_ms"] is row["average_ms"] is None
    assert row["gradient_bytes"] == 0


def test_the_start_has_its_parts(monkeypatch, capsys):
    monkeypatch.setattr(
        scaling, "_run", lambda arguments, _: [(process.main(*arguments), json.loads(capsys.readouterr().out))[1]]
    )
    (row,) = scaling.measure_start(TINY, lambda *_: None).rows
    parts = row["import_seconds"] + row["build_seconds"] + row["step_seconds"]
    assert row["seconds"] == pytest.approx(parts)


def test_a_process_that_fails_ends_the_others(monkeypatch):
    """One fails at once, one would sleep for a minute."""
    command = "import os, sys, time; time.sleep(60) if os.environ['WHO'] == '0' else sys.exit('out of luck')"
    real = subprocess.Popen
    monkeypatch.setattr(scaling.subprocess, "Popen", lambda _, **k: real([sys.executable, "-c", command], **k))
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="out of luck"):
        scaling._run([], [{"WHO": "0"}, {"WHO": "1"}])
    assert time.monotonic() - started < 30


def test_numbers_that_are_missing_are_dashes():
    table = Table("x", "Title", ({"name": "a", "samples_per_second": 1234.5}, {"name": "b", "ratio": 2.0, "odd": 1}))
    text = table.text()
    assert "1,234" in text
    assert "–" in text
    assert "odd" not in text
    assert table.to_json()["rows"][1]["odd"] == 1


def test_parts_come_in_their_order():
    assert chosen_parts(["loader", "train"]) == ["train", "loader"]
    assert chosen_parts([]) == chosen_parts(["all"]) == ["train", "augment", "loader", "scaling", "start"]


@pytest.mark.parametrize("batch", [4, 6, 7, 64, 100, 256])
def test_chunks_divide_any_batch(batch):
    settings = default_settings("cpu", batch_size=batch)
    assert settings.config(**CARE_SETTINGS).chunks == settings.chunks <= 16
    assert default_settings("cpu", batch_size=256).chunks == 16


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["trian"], "no part of the benchmark is called 'trian'; there are train, augment"),
        (["--batch-size", "2"], "at least 4 images are needed"),
        (["--seconds", "0"], "a row needs a positive number of seconds"),
        (["--processes", "1,two"], "expected numbers of processes such as 1,2,4, got '1,two'"),
        (["--processes", "0"], "must be at least 1"),
        (["--model", "resnet19"], "timm has no model 'resnet19'"),
        (["--size", "2"], "size must be at least 8"),
        (["--images", "10"], "does not fill one batch of 64"),
        (["--device", "gpu0"], "device"),
    ],
)
def test_mistakes_are_told_in_one_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run("--device", "cpu", *args, code=2)
    assert message in output
    assert not list(tmp_path.iterdir())
