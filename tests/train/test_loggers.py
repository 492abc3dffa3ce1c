"""What is logged within epochs, and what other programs are told."""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

from care.cli import app
from care.train import Config, Interrupted, Progress, Run, prepare, step_means, train
from care.train.loggers import StepLines, TensorBoard, WeightsAndBiases, check_loggers, observers
from care.train.schedule import learning_rate
from care.train.step_means import Reading, StepMeans
from train.small import small_config, small_data
from train.watched import StopAfter

pytestmark = pytest.mark.usefixtures("coarse_pictures")

RECORD = {"epoch": 2, "step": 20, "loss": 1.5, "knn": None, "learning_rate": 1e-3}
CONFIG = Config.of(data="shapes", epochs=2, batch_size=64, schedule="cosine", warmup_epochs=1)


class Kept(Progress):
    def __init__(self):
        self.records = []

    def means(self, record):
        self.records.append(record)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("loggers"))


def losses(generator, steps):
    return torch.rand(steps, generator=generator, dtype=torch.float64)


def test_the_means_are_those_of_the_steps_in_between(generator):
    kept = Kept()
    means = StepMeans(4, kept)
    for epoch in range(2):
        sums, every = {"loss": torch.zeros((), dtype=torch.float64)}, losses(generator, 10)
        for step in range(1, 11):
            sums["loss"] += every[step - 1]
            means.step(epoch, step, 10, CONFIG, sums)
        means.epoch({"epoch": epoch + 1})
        found = kept.records[-3:]
        assert [record["step"] for record in found] == [epoch * 10 + step for step in (4, 8, 10)]
        expected = [every[:4].mean(), every[4:8].mean(), every[8:].mean()]
        assert [record["loss"] for record in found] == pytest.approx([mean.item() for mean in expected])
        rates = [learning_rate(record["step"] - 1, 20, 1e-3, 10, "cosine") for record in found]
        assert [record["learning_rate"] for record in found] == rates
        assert all(record["samples_per_second"] > 0 for record in found)


def test_a_run_resumed_within_an_epoch_counts_from_there(generator):
    kept, every = Kept(), losses(generator, 10)
    means = StepMeans(5, kept)
    for step in range(7, 11):
        means.step(0, step, 10, CONFIG, {"loss": every[:step].sum()})
    assert [record["step"] for record in kept.records] == [10]
    assert kept.records[0]["loss"] == pytest.approx(every[7:].mean().item())


class Later:
    """An event of a GPU that has passed when the test says so, 2 seconds after the one before it."""

    passed = False

    def query(self):
        return self.passed

    def elapsed_time(self, later):
        return 2000.0


@pytest.mark.usefixtures("unchecked")
def test_what_a_gpu_has_not_copied_yet_is_sent_later(monkeypatch):
    kept, events = Kept(), []

    def read(step, sums):
        events.append(Later())
        return Reading(step, step, {name: value.clone() for name, value in sums.items()}, events[-1])

    monkeypatch.setattr(step_means, "_read", read)
    means = StepMeans(2, kept)
    for step in range(1, 6):
        means.step(0, step, 8, CONFIG, {"loss": torch.tensor(float(step * step))})
    assert kept.records == []
    events[1].passed = True
    means.step(0, 6, 8, CONFIG, {"loss": torch.tensor(36.0)})
    assert [record["step"] for record in kept.records] == [2]
    for event in events:
        event.passed = True
    means.finish(complete=True)
    assert [record["loss"] for record in kept.records] == [2.0, 6.0, 10.0]
    assert [record["samples_per_second"] for record in kept.records] == [32.0, 64.0, 64.0]


def test_a_resumed_run_has_every_step_once(data, tmp_path):
    config, run = small_config(data, epochs=2, evaluate_every=2), Run(tmp_path / "run")
    job = prepare(config, run.folder)
    with pytest.raises(Interrupted):
        train(job, observers(job, 1, (), StopAfter(2)))
    for step in (3, 4):  # as of a process that was killed after the checkpoint, in the middle of a line
        run.add_step({"epoch": 1, "step": step, "loss": -1.0})
    with (run.folder / "steps.jsonl").open("a") as file:
        file.write('{"epoch": 2, "st')
    job = prepare(config, run.folder, resume=True)
    train(job, observers(job, 1, ()))
    records = run.steps()
    assert [record["step"] for record in records] == [1, 2, 4, 5, 6]  # the third belongs to sums that are not known
    assert all(record["loss"] > 0 for record in records)
    again = prepare(config, tmp_path / "again")
    train(again)
    assert run.log() == again.run.log()


def test_tensorboard_reads_back_what_was_written(tmp_path):
    with TensorBoard(tmp_path, CONFIG) as logger:
        logger.means(RECORD)
        logger.epoch(RECORD)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    names = {f"{group}/{name}" for group in ("steps", "epochs") for name in ("loss", "learning_rate")}
    assert set(events.Tags()["scalars"]) == names
    assert [(event.step, event.value) for event in events.Scalars("epochs/loss")] == [(2, 1.5)]
    assert [(event.step, event.value) for event in events.Scalars("steps/loss")] == [(20, 1.5)]


@pytest.fixture
def calls(monkeypatch):
    """Modules called wandb and mlflow that write down what is asked of them."""
    made = []

    def recorded(name, result=None):
        def call(*arguments, **named):
            made.append((name, *arguments, *([named] if named else [])))
            return result

        return call

    run = SimpleNamespace(**{name: recorded(f"wandb.{name}") for name in ("log", "finish", "define_metric")})
    started = SimpleNamespace(info=SimpleNamespace(run_id="abc"))
    modules = {
        "wandb": {"init": recorded("wandb.init", run)},
        "mlflow": {
            "start_run": recorded("mlflow.start_run", started),
            **{name: recorded(f"mlflow.{name}") for name in ("log_params", "log_metrics", "end_run")},
        },
    }
    for name, functions in modules.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_both_are_told_everything_and_go_on_with_the_same_run(calls, data, tmp_path):
    config = small_config(data, epochs=1, batch_size=48)
    for epochs in (1, 2):
        job = prepare(config.replace(epochs=epochs), tmp_path / "run", resume=epochs > 1)
        train(job, observers(job, 1, ("wandb", "mlflow", "wandb")))
    inits = [call[1] for call in calls if call[0] == "wandb.init"]
    assert inits[0]["id"] == inits[1]["id"]
    assert inits[0]["resume"] == "allow"
    assert inits[0]["project"] == "care"
    assert inits[0]["config"] == config.flat()
    loss = [record["loss"] for record in job.run.log()]
    logged = [call[1] for call in calls if call[0] == "wandb.log"]
    # a resumed run may send its last epoch again
    assert {values["epoch"]: values["epochs/loss"] for values in logged if "epoch" in values} == {
        1: loss[0],
        2: loss[1],
    }
    assert [values["steps/loss"] for values in logged if "step" in values] == pytest.approx(loss)
    starts = [call[1] for call in calls if call[0] == "mlflow.start_run"]
    assert starts == [{"run_name": "run"}, {"run_id": "abc"}]
    assert sum(call[0] == "mlflow.log_params" for call in calls) == 1
    metrics = [call[1:] for call in calls if call[0] == "mlflow.log_metrics"]
    found = {at["step"]: values["epochs/loss"] for values, at in metrics if "epochs/loss" in values}
    assert found == {1: loss[0], 2: loss[1]}
    assert calls[-2:] == [("wandb.finish", {"exit_code": 0}), ("mlflow.end_run", "FINISHED")]


def test_a_training_that_is_stopped_says_so(calls, data, tmp_path):
    job = prepare(small_config(data), tmp_path / "run")
    with pytest.raises(Interrupted):
        train(job, observers(job, 0, ("wandb", "mlflow"), StopAfter(1)))
    assert calls[-2:] == [("wandb.finish", {"exit_code": 1}), ("mlflow.end_run", "FAILED")]


@pytest.mark.usefixtures("calls")
def test_a_logger_that_fails_does_not_end_the_training(tmp_path, capsys):
    logger = WeightsAndBiases(tmp_path, CONFIG)

    def fail(*_):
        raise ConnectionError("no\nroute")

    logger.run.log = fail
    for _ in range(2):
        logger.epoch(RECORD)
    said = "care: wandb has failed: ConnectionError: no route; the training goes on without it\n"
    assert capsys.readouterr().err == said


def test_one_that_cannot_start_says_so_before_the_training(calls, monkeypatch, tmp_path):
    def fail(**_):
        raise RuntimeError("api_key not configured")

    monkeypatch.setattr(sys.modules["wandb"], "init", fail)
    with pytest.raises(ValueError, match="wandb cannot start: RuntimeError: api_key not configured"):
        WeightsAndBiases(tmp_path, CONFIG)
    assert calls == []


@pytest.mark.parametrize(
    ("name", "message"), [("wandb", r"install care-ssl\[wandb\]"), ("comet", "one of tensorboard")]
)
def test_a_logger_that_is_not_there(name, message, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=message):
        check_loggers([name])


def test_the_command_takes_several(calls, data, tmp_path):
    options = {"model": "small_resnet", "epochs": 1, "batch-size": 16, "size": 8, "device": "cpu"}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words += ["--logger", "mlflow", "--logger", "tensorboard", "--log-every", "2"]
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["train", "--data", data, "--out", str(out), *words])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["step"] for line in (out / "steps.jsonl").read_text().splitlines()] == [2, 3]
    assert len(list((out / "tensorboard").iterdir())) == 1
    assert calls[-1] == ("mlflow.end_run", "FINISHED")


def test_lines_of_steps_that_cannot_be_written_name_the_file(tmp_path):
    lines = StepLines(Run(tmp_path / "gone"))
    with pytest.raises(OSError, match=r"steps\.jsonl could not be written"):
        lines.means(RECORD)
