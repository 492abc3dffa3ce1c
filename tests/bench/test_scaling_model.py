"""The model of a step on many processes, against steps worked out by hand, and the command that runs it."""

import json

import pytest
from torch.nn.modules.batchnorm import _BatchNorm
from typer.testing import CliRunner

from care.bench.scaling_links import Fabric, Link, fitted
from care.bench.scaling_model import Layer, Workload, layers_of, simulate
from care.bench.scaling_simulated import read_workload, simulated_table
from care.cli import app
from care.models import Encoder

MB = 1 << 20
# A message takes a second to start, and a second per megabyte sent; two processes send a message once to sum it.
SLOW = Fabric(node=8, inside=Link(float(MB), 0.0), between=Link(float(MB), 0.0), start=1.0)
FREE = Fabric(inside=Link(1e30, 0.0), between=Link(1e30, 0.0), start=0.0)


def work(*layers, **changed):
    sizes = {"batch": 4, "dimension": 8, "groups": 1, "similarity": 0.0, "draw": 1.0, "update": 2.0}
    return Workload(**{**sizes, "layers": layers, "forward": 10.0, "backward": 20.0, **changed})


def test_messages_by_hand():
    fabric = Fabric(node=8, inside=Link(400e9, 1.5e-6), between=Link(50e9, 5e-6), start=10e-6)
    assert fabric.all_reduce(0, 1) == fabric.all_gather(10**9, 1) == 0
    assert fabric.all_reduce(0, 8) == pytest.approx(10e-6 + 2 * 3 * 1.5e-6)  # a tree of three levels, up and down
    assert fabric.all_reduce(0, 512) == pytest.approx(10e-6 + 2 * (3 * 1.5e-6 + 6 * 5e-6))  # and six between 64 nodes
    assert fabric.all_gather(0, 512) == pytest.approx(10e-6 + 448 * 1.5e-6 + 63 * 5e-6)  # 511 hops of a ring
    assert fabric.all_reduce(10**9, 8) - fabric.all_reduce(0, 8) == pytest.approx(2 * 7 / 8 * 1e9 / 400e9)
    assert fabric.all_gather(10**9, 16) - fabric.all_gather(0, 16) == pytest.approx(15 / 16 * 1e9 / 50e9)


def test_a_fit_gives_back_the_messages_it_was_made_from():
    fabric = fitted(4, small=2e-3, large=5e-3, message=4 * MB)
    assert fabric.all_reduce(0, 4) == pytest.approx(2e-3)
    assert fabric.all_reduce(4 * MB, 4) == pytest.approx(5e-3)


def test_one_process_and_free_messages_take_what_one_takes():
    step = work(Layer(4, MB), Layer(0, MB))
    for found in (simulate(step, SLOW, 1), simulate(step, FREE, 512)):
        assert found.seconds == pytest.approx(33.0)
        assert found.efficiency == pytest.approx(1.0)


def test_a_slower_step_has_all_its_phases_slower():
    slower = work(Layer(4, MB)).scaled(66.0)
    assert (slower.draw, slower.forward, slower.backward, slower.update) == pytest.approx((2.0, 20.0, 40.0, 4.0))
    assert simulate(slower, SLOW, 2).batchnorm == simulate(work(Layer(4, MB)), SLOW, 2).batchnorm


def test_two_batchnorms_by_hand():
    """Four sums of a second each; embeddings there and back; a last bucket after the backward pass."""
    found = simulate(work(Layer(4, 0), Layer(4, 0), similarity=0.01), SLOW, 2)
    embeddings = 2 * (2 * 4 * 2) * 8 * 4 / 2 / MB  # of 16 embeddings of 8 numbers, half is sent, twice
    assert found.gather == pytest.approx(2 + embeddings)
    assert found.batchnorm == pytest.approx(4 * 1.0 + 2 * (8 + 4) * 8 / MB)
    assert found.contrast == pytest.approx(0.01 * 8 * 8)  # 8 anchors with the 8 embeddings of the other process
    assert found.gradients == pytest.approx(1.0)
    assert found.samples == 8
    parts = found.compute + found.contrast + found.gather + found.batchnorm + found.gradients
    assert found.seconds == pytest.approx(parts)


def test_a_bucket_that_is_sent_during_the_backward_pass_costs_nothing():
    """Its 4 MB take 5 s, of 10 that the first layer's backward pass takes; the first layer's 1 MB take 2 s after it."""
    found = simulate(work(Layer(0, MB // 4), Layer(0, MB)), SLOW, 2)
    assert found.gradients == pytest.approx(2.0)
    assert found.batchnorm == 0


def test_a_sum_of_batchnorm_waits_for_the_bucket_before_it():
    """The bucket of the last layer takes 13 s, the next layer's backward pass 10: its sum waits for 3 of them."""
    found = simulate(work(Layer(1, 0), Layer(0, 3 * MB)), SLOW, 2)
    assert found.gradients == pytest.approx(3.0 + 1.0)
    assert simulate(work(Layer(1, 0), Layer(0, 3 * MB)), SLOW, 2, normalized_over=1).batchnorm == 0


def test_layers_have_all_parameters_and_all_batchnorms():
    network = Encoder.build("test_resnet", input_shape=(32, 32), embedding_dim=8, head_width=16)
    layers = layers_of(network)
    assert sum(layer.parameters for layer in layers) == sum(p.numel() for p in network.parameters())
    norms = [module.num_features for module in network.modules() if isinstance(module, _BatchNorm)]
    assert [layer.channels for layer in layers if layer.channels] == norms


@pytest.fixture
def measured(tmp_path):
    """What `care bench train` writes of a machine that it is not run on, as far as it is read."""
    settings = {"device": "cuda", "model": "test_resnet", "batch_size": 256, "size": 32, "seconds": 5.0}
    settings |= {"processes": [1], "compile": True, "images": 50_000}
    phases = {"draw_ms": 0.5, "forward_ms": 3.0, "backward_ms": 6.0, "update_ms": 0.5}
    rows = [{"name": "SimCLR", "ms_per_step": 1.0}, {"name": "CARE", "ms_per_step": 20.0, **phases}]
    record = {"machine": {"gpu": "Fast GPU"}, "settings": settings, "tables": {"train": {"rows": rows}}}
    (tmp_path / "measured.json").write_text(json.dumps(record))
    return tmp_path / "measured.json"


def test_a_measurement_of_another_machine_is_read(measured):
    """The phases add up to the step: 10 ms of phases in a step of 20."""
    step, source = read_workload(measured)
    assert (step.batch, step.dimension, step.groups, step.embedding_width) == (256, 128, 4, 2)
    assert step.forward == pytest.approx(6e-3)
    assert step.seconds == pytest.approx(20e-3)
    assert source == "20.0 ms a step of test_resnet on one Fast GPU"


def test_the_table_goes_up_in_nodes_and_ends_with_what_would_help(measured):
    table = simulated_table(read_workload(measured)[0], Fabric(), 512, "a test")
    assert [row["processes"] for row in table.rows] == [1, 8, 64, 512, 512, 512, 512]
    assert table.rows[0]["efficiency"] == 1
    falling = [row["efficiency"] for row in table.rows[:4]]
    assert falling == sorted(falling, reverse=True)
    all_of_them, within, queue, larger = table.rows[3:]
    assert all_of_them["samples_per_second"] == pytest.approx(512 * 256e3 / all_of_them["ms_per_step"])
    assert within["batchnorm_waited_ms"] == pytest.approx(table.rows[1]["batchnorm_waited_ms"])
    assert queue["contrast_waited_ms"] == 0
    assert queue["gather_waited_ms"] < all_of_them["gather_waited_ms"] / 2
    assert larger["contrast_waited_ms"] == pytest.approx(16 * all_of_them["contrast_waited_ms"])
    assert larger["compute_ms"] == pytest.approx(4 * all_of_them["compute_ms"] - 3 * 1.0)  # one update: 1 ms of 20


def run(*args, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


def test_the_command_prints_writes_and_draws(measured, tmp_path):
    out = tmp_path / "simulated.json"
    said = run("scaling", "--simulate", 64, "--measured", measured, "--between", "25,10", "--out", out).stdout
    assert said.startswith("Simulated from 20.0 ms a step of test_resnet on one Fast GPU")
    assert "25 GB/s per process and 10 µs" in " ".join(said.split())
    rows = json.loads(out.read_text())["tables"]["scaling"]["rows"]
    assert [row["processes"] for row in rows[:3]] == [1, 8, 64]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_it_measures_here_without_a_file(tmp_path):
    out = tmp_path / "here.json"
    sizes = ("--device", "cpu", "--batch-size", 8, "--size", 16, "--seconds", 0.01, "--images", 20)
    said = run("scaling", "--simulate", 8, *sizes, "--out", out)
    assert said.stdout.startswith("Simulated from one process of this machine")
    assert "measuring InfoNCE" in said.stderr
    rows = json.loads(out.read_text())["tables"]["scaling"]["rows"]
    assert rows[0]["compute_ms"] == pytest.approx(rows[0]["ms_per_step"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("train", "--simulate", 8), "care bench scaling --simulate 512"),
        (("scaling", "--measured", "x.json"), "care bench scaling --simulate 512"),
        (("scaling", "--simulate", 8, "--inside", "fast"), "expected GB/s and µs such as 50,5, got 'fast'"),
        (("scaling", "--simulate", 8, "--between", "0,5"), "more than 0 GB/s"),
        (("scaling", "--simulate", 8, "--measured", "x.json"), "x.json is not what care bench train --out writes"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(options, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in run(*options, "--device", "cpu", code=2).stderr
    assert not (tmp_path / "bench.json").exists()
