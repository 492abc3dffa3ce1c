"""Whole runs, small: what they leave behind, and that they can be repeated, stopped, killed and resumed."""

import dataclasses
import json
import signal

import numpy as np
import pytest
import torch
from small import same_state, small_config, small_data
from watched import StopAfter

import care
from care.data import Samples
from care.train import Config, Interrupted, Run, prepare, train
from care.train.finite import FiniteCheck
from care.train.state import build_state, channel_statistics


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


def run(config, folder, resume=False, progress=None):
    train(prepare(config, folder, resume), progress)
    return Run(folder)


METHODS = {  # every registered one is stopped and resumed in tests/methods/test_contract.py
    "steered": {"equivariance": "steering", "care_weight": 1.0, "steering_weight": 1.0, "optimizer": "muon"},
    "average": {"ema": 0.9, "accumulate": 2, "equivariance": "care", "care_weight": 1.0, "optimizer": "lars"},
}


def test_a_run_leaves_what_it_promises(data, tmp_path):
    config = small_config(data, epochs=2, equivariance="care", care_weight=3.0)
    folder = run(config, tmp_path / "run").folder
    assert {"config.toml", "log.jsonl", "speed.jsonl", "model.safetensors", "checkpoints"} <= {
        p.name for p in folder.iterdir()
    }
    assert Config.from_toml((folder / "config.toml").read_text()) == config
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in log] == [1, 2]
    assert {
        "loss", "info_nce", "equivariance", "positive_cosine", "negative_cosine", "gram_error", "displacement", "gamma",
        "heldout_ratio", "knn", "learning_rate", "rankme", "backbone_rankme", "effective_rank", "alignment",
        "gaussian_uniformity",
    } <= set(log[0])  # fmt: skip
    assert log[-1]["loss"] == pytest.approx(log[-1]["info_nce"] + 3 * log[-1]["equivariance"])


def test_the_encoder_comes_back_in_one_line(data, tmp_path):
    folder = run(small_config(data, epochs=1), tmp_path / "run").folder
    encoder = care.load(folder)
    images = torch.rand(2, 3, 32, 32)
    assert not encoder.training
    assert not any(p.requires_grad for p in encoder.parameters())
    assert torch.equal(encoder(images), care.load(folder / "model.safetensors")(images))
    with pytest.raises(ValueError, match="is not the folder of a run"):
        care.load(tmp_path)


@pytest.mark.parametrize("name", METHODS)
def test_stopped_and_resumed_equals_never_stopped(name, data, tmp_path):
    """Stopped by Ctrl-C and by SIGTERM within an epoch, and by Ctrl-C in its last step, then resumed: bit-identical.

    In the first epoch; the next test stops in the second.
    """
    config = small_config(data, **METHODS[name], epochs=2, evaluate_every=2)
    whole = run(config, tmp_path / "whole").folder
    for steps, sent, resume in ((1, signal.SIGINT, False), (1, signal.SIGTERM, True), (1, signal.SIGINT, True)):
        with pytest.raises(Interrupted):
            run(config, tmp_path / "stopped", resume, StopAfter(steps, sent))
    run(config, tmp_path / "stopped", resume=True)
    assert same_state(whole, tmp_path / "stopped")


def test_a_finished_run_goes_on_for_more_epochs_as_if_it_had_been_meant_to(data, tmp_path):
    """Stopped on the way, too."""
    longer = small_config(data, epochs=3, evaluate_every=3, equivariance="care", care_weight=1.0, warmup_epochs=1)
    whole = run(longer, tmp_path / "whole").folder
    run(dataclasses.replace(longer, epochs=1), tmp_path / "short")
    with pytest.raises(Interrupted):
        run(longer, tmp_path / "short", resume=True, progress=StopAfter(2, signal.SIGTERM))
    assert run(longer, tmp_path / "short", resume=True).config().epochs == 3
    assert same_state(whole, tmp_path / "short")


@pytest.mark.parametrize(
    ("settings", "epochs"),
    [({"schedule": "cosine"}, 3), ({"method": "byol"}, 3), ({}, 1)],
    ids=["cosine", "byol", "fewer"],
)
def test_what_depends_on_the_number_of_epochs_does_not_go_on_for_another(settings, epochs, data, tmp_path):
    config = small_config(data, epochs=2, **settings)
    with pytest.raises(Interrupted):
        run(config, tmp_path / "run", progress=StopAfter(1))
    with pytest.raises(ValueError, match=f"another configuration: epochs: {epochs} instead of 2"):
        run(config.replace(epochs=epochs), tmp_path / "run", resume=True)


def test_the_same_seed_gives_the_same_run_and_another_does_not(data, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(small_config(data, epochs=1, seed=seed, limit=32), tmp_path / name)
    assert same_state(tmp_path / "a", tmp_path / "b")
    assert not same_state(tmp_path / "a", tmp_path / "c")


def test_images_are_normalized_by_their_own_mean_and_deviation():
    pictures = np.random.default_rng(0).integers(0, 256, (603, 3, 6, 5), dtype=np.uint8) // np.array(
        [[[1]], [[2]], [[5]]]
    )
    samples = Samples(torch.from_numpy(pictures.astype(np.uint8)), torch.zeros(603, dtype=torch.int64), ("all",))
    found = channel_statistics(samples)
    assert found["mean"] == pytest.approx(pictures.mean((0, 2, 3)) / 255)
    assert found["std"] == pytest.approx(pictures.std((0, 2, 3)) / 255)


def test_sgd_has_the_momentum_that_was_asked_for(data, tmp_path):
    job = prepare(small_config(data, optimizer="sgd", sgd_momentum=0.3), tmp_path / "run")
    state = build_state(job.config, job.samples, job.processes)
    assert [group["momentum"] for group in state.optimizer.param_groups] == [0.3]


def test_half_precision_trains(data, tmp_path):
    """Close to full precision over three small steps, but not the same numbers."""
    settings = {"epochs": 1, "equivariance": "care", "care_weight": 1.0, "learning_rate": 1e-4}
    full, *halves = (
        run(small_config(data, precision=precision, **settings), tmp_path / precision).log()[0]["loss"]
        for precision in ("fp32", "bf16", "fp16")
    )
    assert halves == 2 * [pytest.approx(full, rel=0.01)]
    assert len({full, *halves}) == 3


def test_a_second_run_into_the_same_folder_is_refused(data, tmp_path):
    config = small_config(data, epochs=1)
    with pytest.raises(Interrupted):
        run(config, tmp_path / "run", progress=StopAfter(1))
    with pytest.raises(ValueError, match="already holds a run"):
        prepare(config, tmp_path / "run")
    with pytest.raises(ValueError, match="another configuration: seed: 5 instead of 0"):
        prepare(config.replace(seed=5), tmp_path / "run", resume=True)


def test_an_epoch_that_is_not_finite_is_not_saved_even_if_no_step_was_asked(data, tmp_path, monkeypatch):
    """On a GPU the last steps of an epoch are not asked about, nor those of a short one."""
    monkeypatch.setattr(FiniteCheck, "ask", lambda *_: None)
    with pytest.raises(FloatingPointError, match="not finite"):
        run(small_config(data, optimizer="sgd", learning_rate=1e30), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_loss_that_is_not_finite_stops_before_anything_is_saved(data, tmp_path):
    with pytest.raises(FloatingPointError, match=r"loss.* not finite at step \d+"):
        run(small_config(data, optimizer="sgd", learning_rate=1e30), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_batch_that_cannot_be_filled_is_refused(data, tmp_path):
    with pytest.raises(ValueError, match="10 samples do not fill one batch of 16"):
        prepare(small_config(data, limit=10), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for batch, other in ((64, ""), (44, ", or a smaller `validation`")):
        left = f"42 of 48 samples are left after 6 were held out, and do not fill one batch of {batch}: choose a"
        with pytest.raises(ValueError, match=f"{left} smaller `batch_size`{other}$"):
            prepare(small_config(data, batch_size=batch, validation=3), tmp_path / "run")


def test_validation_is_cut_from_train(data, tmp_path):
    job = prepare(small_config(data, validation=3), tmp_path / "run")
    assert (len(job.samples), len(job.heldout)) == (42, 6)


def test_clouds_train_too(tmp_path, monkeypatch):
    from care.data import Samples, generate_chains

    def small(name, split="train", **_):
        chains = generate_chains(32, seed=len(split), points=16)
        return Samples(chains.points, chains.labels, tuple("0123456789"), name="chains")

    monkeypatch.setattr("care.data.load", small)
    config = small_config("chains", model="deepset", policy="rotations", equivariance="care", care_weight=1.0)
    assert run(config, tmp_path / "run").log()[-1]["heldout_ratio"] > 0
