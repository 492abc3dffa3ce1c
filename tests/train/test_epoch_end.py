"""What happens when the steps of an epoch are done: it is saved, then measured, and either can be chosen less often."""

import dataclasses
import os
import shutil
import signal

import pytest
import torch

from care.augment import mocov2, simclr
from care.data import Samples
from care.geometry import Euclidean
from care.train import Interrupted, Run, Saving, prepare, train, trained
from care.train.checkpoint import load_latest
from care.train.monitor import AUGMENTATIONS, Monitor
from care.train.trained import load_config, load_trained
from train.small import same_state, small_config, small_data
from train.watched import StopAfter


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("data"))


def of_four(data, **settings):
    """Measured after the second and the last."""
    return small_config(data, **{"epochs": 4, "evaluate_every": 2, **settings})


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A run of four epochs that nothing disturbed."""
    return run(of_four(data), tmp_path_factory.mktemp("runs") / "whole")


def run(config, folder, resume=False, saving=None, progress=None):
    job = prepare(config, folder, resume, saving)
    train(job, progress)
    return folder


def steps_of(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").iterdir())


def test_an_epoch_is_saved_before_it_is_measured(data, whole, tmp_path, monkeypatch):
    def fail(*_):
        raise MemoryError("the measuring takes too much")

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "measure", fail)
        with pytest.raises(MemoryError):
            run(of_four(data), tmp_path / "run")
    assert steps_of(tmp_path / "run") == [3, 6]
    assert [record["epoch"] for record in Run(tmp_path / "run").log()] == [1]
    run(of_four(data), tmp_path / "run", resume=True)
    assert same_state(whole, tmp_path / "run")


def test_a_signal_while_it_measures_is_answered_at_once(data, whole, tmp_path, monkeypatch):
    """No picture is embedded any more, and the state is saved although this epoch was not to be."""
    measure, embedded = Monitor.measure, []

    def interrupted(self, encoder, device):
        os.kill(os.getpid(), signal.SIGINT)
        encoder.register_forward_pre_hook(lambda *_: embedded.append(1))
        return measure(self, encoder, device)

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "measure", interrupted)
        with pytest.raises(Interrupted):
            run(of_four(data), tmp_path / "run", saving=Saving(every=4))
    assert embedded == []
    assert steps_of(tmp_path / "run") == [6]
    run(of_four(data), tmp_path / "run", resume=True)
    assert same_state(whole, tmp_path / "run")


def test_checkpoints_are_saved_and_kept_as_often_as_asked(data, whole, tmp_path):
    folder = run(of_four(data, evaluate_every=4), tmp_path / "run", saving=Saving(every=2))
    assert steps_of(folder) == [6, 12]
    assert steps_of(whole) == [9, 12]
    kept = run(of_four(data), tmp_path / "kept", saving=Saving(keep_every=1))
    assert steps_of(kept) == [3, 6, 9, 12]
    assert same_state(whole, kept)
    with pytest.raises(ValueError, match="keep_every must be a multiple of save_every, 2, got 3"):
        Saving(every=2, keep_every=3)


@pytest.mark.parametrize("settings", [{"ema": 0.9}, {"equivariance": "steering"}], ids=str)
def test_a_checkpoint_is_a_model(settings, data, tmp_path, monkeypatch):
    """That of the first of two epochs is what a run of one epoch ends with."""
    run(small_config(data, epochs=2, evaluate_every=2, **settings), tmp_path / "long")
    run(small_config(data, epochs=1, **settings), tmp_path / "short")
    kept, ended = (load_trained(path) for path in (tmp_path / "long/checkpoints/step-00000003", tmp_path / "short"))
    with monkeypatch.context() as patch:
        patch.setattr(trained, "build_encoder", None)  # a configuration needs no encoder
        assert load_config(tmp_path / "long/checkpoints/step-00000003").epochs == kept.config.epochs
        assert load_config(tmp_path / "short") == ended.config
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(kept.encoder(images), ended.encoder(images))
    assert kept.exported.keys() == ended.exported.keys()
    assert all(torch.equal(kept.exported[name], ended.exported[name]) for name in ended.exported)
    assert kept.config.epochs == 2


def test_how_it_is_carried_out_may_change_on_resume(data, whole, tmp_path):
    with pytest.raises(Interrupted):
        run(of_four(data), tmp_path / "run", progress=StopAfter(4))
    config = of_four(data, evaluate_every=3, graph=False)
    run(config, tmp_path / "run", resume=True)
    states = [load_latest(folder / "checkpoints").tensors for folder in (whole, tmp_path / "run")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert Run(tmp_path / "run").config() == config
    assert ["knn" in record for record in Run(tmp_path / "run").log()] == [False, False, True, True]
    free = {"device": "cuda", "compile": True, "graph": False, "evaluate_every": 7, "cache": "kept"}
    assert config.replace(**free).obstacles(config) == config.obstacles(config.replace(**free)) == []
    assert config.replace(precision="bf16").obstacles(config) != []


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    data = small_data(tmp_path / "data")
    config = small_config(data, epochs=2)
    with pytest.raises(Interrupted):
        run(config, tmp_path / "run", progress=StopAfter(2))
    shutil.rmtree(tmp_path / "data")
    small_data(tmp_path / "data", n=49)
    with pytest.raises(ValueError, match=r"noise is not what .* was trained on"):
        run(config, tmp_path / "run", resume=True)


def test_every_rank_resumes_from_the_checkpoint_of_rank_0(data, whole, tmp_path, monkeypatch):
    """Rank 1 finds a newer one that rank 0 could not read, and leaves it alone."""
    from care.train import distributed, loop

    folder = shutil.copytree(whole, tmp_path / "run")
    job = prepare(of_four(data), folder, resume=True)
    job = dataclasses.replace(job, processes=distributed.Processes(1, 2, torch.device("cpu")))
    monkeypatch.setattr(distributed, "on_rank_0", lambda *_: None)
    monkeypatch.setattr(distributed, "text_of_rank_0", lambda text: "step-00000009")
    assert loop._last_checkpoint(job).step == 9
    assert load_latest(folder / "checkpoints").step == 12


class TestHowMuchIsMeasured:
    def monitor(self, n=400, policy=None, **settings):
        samples = Samples(torch.zeros(n, 3, 8, 8, dtype=torch.uint8), torch.arange(n) % 2, ("one", "two"))
        return Monitor(samples, samples, policy or simclr(8), Euclidean(), 0, **settings)

    def test_it_takes_a_tenth_of_training_at_most(self):
        """Passes of a picture: 5 × 400 of views, 400 for neighbors; a pass with gradient costs three without."""
        passes = (1 + AUGMENTATIONS + 1) * 400
        for training in (100.0, 3e3, 1e4, 1e6):
            every = self.monitor().every(training)
            assert passes <= 0.1 * 3 * training * every
            assert every == 1 or passes > 0.1 * 3 * training * (every - 1)

    def test_a_limit_limits_it_too(self):
        assert len(self.monitor(most=30)._tested) == len(self.monitor(most=30)._compared) == 30

    def test_batches_are_smaller_where_pictures_are_larger(self):
        sizes = [
            self.monitor(policy=policy)
            ._embedder(lambda x: {}, self.monitor()._tested, torch.device("cpu"))
            .rows_at_once
            for policy in (simclr(32), mocov2(224))
        ]
        assert sizes == [500, 10]

    def test_the_default_follows_from_the_amount_of_data(self, data, tmp_path):
        log = Run(run(small_config(data, epochs=3, evaluate_every=None), tmp_path / "run")).log()
        assert ["knn" in record for record in log] == [False, False, True]
