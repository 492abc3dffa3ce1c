"""`care bench photos`: what it measures of networks on photos, whatever the clock says."""

import dataclasses
import json

import pytest
import torch
from typer.testing import CliRunner

from care.bench import data_waiting, default_settings, photos, streaming
from care.bench.settings import CARE_SETTINGS, NETWORKS_ON_CPU, Settings
from care.bench.training import build_step
from care.cli import app
from care.train import distributed

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
SMALL = {"batch_size": 8, "size": 16, "seconds": 0.01, "images": 16}


def run(*args, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


def test_every_network_has_its_step_and_its_sources(tmp_path):
    """Of the first network all sources, of others files; shares are those of the phases."""
    out = tmp_path / "bench.json"
    sizes = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
    result = run("photos", "--device", "cpu", *sizes, "--out", out)
    rows = json.loads(out.read_text())["tables"]["photos"]["rows"]
    first, second = NETWORKS_ON_CPU
    names = ["a batch that is there", "JPEG files", "JPEG files, from a cache", *list(streaming.WRITERS)[1:]]
    assert [row["name"] for row in rows] == [f"{first}, {name}" for name in names] + [
        f"{second}, {name}" for name in names[:3]
    ]
    for row in (rows[0], rows[len(names)]):
        phases = [row[f"{phase}_ms"] for phase in ("draw", "forward", "backward", "update")]
        assert row["views_share"] == pytest.approx(phases[0] / sum(phases))
        assert row["passes_share"] == pytest.approx((phases[1] + phases[2]) / sum(phases))
        assert row["share_of_limit"] == pytest.approx(
            1e3 * row["flops_per_step"] / row["ms_per_step"] / row["peak_flops"]
        )
    for row in (*rows[1 : len(names)], rows[-1]):
        assert row["samples_per_second"] == pytest.approx(8e3 / row["ms_per_step"])
        assert row["source_rate"] > 0
        assert 0 <= row["waiting_share"] < 1
    assert "of a step waiting" in result.stdout
    assert f"{second}: fed from JPEG files: " in result.stderr


def test_the_gpu_decodes_files_alone(tmp_path, monkeypatch):
    """With the CPU in place of a GPU: six sources, of which one is decoded by the GPU."""
    settings = default_settings("cpu", **SMALL)
    monkeypatch.setattr(Settings, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(streaming, "nvjpeg", lambda device: None)
    found = photos._chosen_sources(settings, tmp_path, lambda line: None)
    kinds = [(name, samples.stored.decoder) for name, samples in found]
    files = [("", "cpu"), (", decoded by the GPU", "gpu"), (", from a cache", "cpu")]
    assert kinds[:3] == [(f"JPEG files{words}", decoder) for words, decoder in files]
    assert kinds[3:] == [(name, "cpu") for name in list(streaming.WRITERS)[1:]]


def test_a_network_begins_with_the_weights_in_the_file(tmp_path):
    """Those that were drawn first, and not those of the seed of a run."""
    torch.manual_seed(7)
    settings = default_settings("cpu", **SMALL)
    init = photos.random_weights(settings, tmp_path)
    begun = build_step(settings, distributed.start("cpu"), **CARE_SETTINGS, init=init).state.objective.encoder
    written = photos.safetensors.torch.load_file(tmp_path / "test_resnet.safetensors")
    assert all(torch.equal(value, written[name]) for name, value in begun.backbone.state_dict().items())
    other = build_step(settings, distributed.start("cpu"), **CARE_SETTINGS).state.objective.encoder
    assert not torch.equal(next(other.backbone.parameters()), next(begun.backbone.parameters()))


def test_sizes_are_those_of_photos_unless_they_are_chosen():
    alone, others = default_settings("cpu", of_photos=True), default_settings("cpu")
    assert (alone.size, alone.batch_size, alone.model, alone.networks) == (64, 16, "test_resnet", NETWORKS_ON_CPU)
    assert (others.size, others.batch_size, others.networks) == (32, 64, NETWORKS_ON_CPU)
    chosen = default_settings("cpu", of_photos=True, model="resnet18", size=96, batch_size=None)
    assert (chosen.size, chosen.batch_size, chosen.networks) == (96, 16, ("resnet18",))


def test_a_gpu_that_decodes_no_jpegs_is_said_and_left_out(monkeypatch):
    def refuse(device):
        raise ValueError("cuda cannot decode JPEGs")

    monkeypatch.setattr(streaming, "nvjpeg", refuse)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    said = []
    settings = dataclasses.replace(default_settings("cpu", **SMALL), device="cuda", processes=(1,))
    assert streaming._decoders(settings, said.append) == (("cpu", ""),)
    assert said == ["cuda cannot decode JPEGs"]


def test_a_step_that_is_fed_is_compared_with_those_before_and_after(monkeypatch):
    """The one after it is the one before the next source."""
    monkeypatch.setattr(data_waiting, "build_step", lambda *_, **__: lambda inputs, epoch: None)
    monkeypatch.setattr(data_waiting, "warmup_calls", lambda step: 2)
    fed = data_waiting.FedStep(default_settings("cpu", **SMALL))
    timing = fed.time_alone(torch.zeros(1), lambda line: None)
    for _ in range(2):
        row = fed.measure((torch.zeros(1) for _ in range(10**6)), lambda line: None)
        assert row["alone_ms"] == pytest.approx(1e3 * (timing.median + fed.alone.median) / 2)
        timing = fed.alone


def test_networks_that_are_none_are_told_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        "timm has no model 'vit_tiny_19'" in run("photos", "--device", "cpu", "--model", "vit_tiny_19", code=2).output
    )
    assert not list(tmp_path.iterdir())


def test_a_cache_is_full_before_it_is_measured(tmp_path, monkeypatch):
    """Of many pictures, as many as are made up."""
    monkeypatch.setattr(streaming, "MOST_PHOTOS", 10)
    streaming._write_files(tmp_path / "cats", streaming.photos_of(16)[:13])
    settings, said = dataclasses.replace(default_settings("cpu", **SMALL), photos=str(tmp_path / "cats")), []
    *_, (name, samples) = streaming.given_photos(settings, tmp_path, said.append)
    cache = samples.stored.opened_cache(whole=True)
    assert (name, len(samples), cache.kept(), cache.kept(samples.rows)) == ("cats, from a cache", 10, 10, 10)
    assert said == ["decoding 10 photos into a cache"]


def test_photos_of_a_folder_are_measured_in_place_of_made_up_ones(tmp_path):
    """The network is fed from it; too few of them are told before anything is measured."""
    folder, out = tmp_path / "cats", tmp_path / "bench.json"
    streaming._write_files(folder, streaming.photos_of(16)[:9])
    small = ("--size", 16, "--seconds", 0.01, "--device", "cpu", "--out", out, "--model", "test_resnet")
    small += ("--data", folder)
    assert (
        "cats has 9 pictures, which do not fill one batch of 10"
        in run("photos", *small, "--batch-size", 10, code=2).output
    )
    assert "care bench photos --data" in run("train", *small, code=2).output
    assert not out.exists()
    result = run("photos", *small, "--batch-size", 8)
    rows = json.loads(out.read_text())["tables"]["photos"]["rows"]
    sources = ("a batch that is there", "cats", "cats, from a cache")
    assert [row["name"] for row in rows] == [f"test_resnet, {source}" for source in sources]
    assert f"9picturesof{folder}," in "".join(result.stdout.split())
