"""Trials are found again by what they compute, carried out once, and shared among processes."""

import dataclasses
import json
import os
import signal
import threading
import time

import pytest
from typer.testing import CliRunner

from care.atomic_files import Lock
from care.cli import app
from care.evaluate import EvaluationSettings
from care.evaluate.comparison.quantities import ACTED_ON
from care.methods.simclr import SimCLRSettings
from care.objective import setting
from care.reproduce import SCALES, STUDIES, Runner, Trial, run_trials
from care.reproduce.runner import _gpu_lock, _speed
from care.reproduce.trial import find_outcome
from care.train import Run, default_config
from coarse_drawing import coarse_drawing

MEASURES = EvaluationSettings(images=40, augmentations=2, probe_epochs=2, seeds=1, logistic=False)


@pytest.fixture(scope="module", autouse=True)
def quick_decoding():
    """Networks that decode learn for a few epochs: what they find is not looked at here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("care.evaluate.decoding.network.EPOCHS", 3)
        yield


def trial(label="CARE", **chosen):
    care = {"equivariance": "care", "care_weight": 3.0, "chunks": 4}
    tiny = {"limit": 64, "epochs": 1, "batch_size": 16, "head_width": 16, "evaluate_every": 1}
    values = {**tiny, **({} if "equivariance" in chosen else care), **chosen}
    return Trial(label, default_config("chains", **values), MEASURES)


def nothing(*words):
    pass


def test_a_trial_has_the_same_name_however_it_is_computed():
    first = trial()
    assert first.slug == trial(device="cpu", compile=True, graph=False).slug == trial("another label").slug
    assert first.slug == trial(cache="kept").slug
    others = [trial(seed=1), trial(care_weight=1.0), trial(epochs=2), trial(temperature=0.1)]
    others.append(dataclasses.replace(first, measures=dataclasses.replace(MEASURES, augmentations=3)))
    assert len({first.slug, *(other.slug for other in others)}) == 6
    assert first.slug.startswith("chains-deepset-care-simclr-3-1-seed0-")


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runner")
    runner = Runner(folder / "runs", folder / "kept", device="cpu")
    trials = [trial("SimCLR", equivariance="none"), trial()]
    return runner, trials, run_trials(trials, runner, nothing)


def test_what_is_done_is_found_and_not_done_again(carried_out):
    runner, trials, outcomes = carried_out
    weights = [runner.runs / t.slug / "model.safetensors" for t in trials]
    written = [file.stat().st_mtime_ns for file in weights]
    again = run_trials(trials, runner, nothing)
    assert [file.stat().st_mtime_ns for file in weights] == written
    for old, new in zip(outcomes, again, strict=True):
        assert new.trial.label == old.trial.label
        assert new.value(ACTED_ON, "γ_f") == pytest.approx(old.value(ACTED_ON, "γ_f"), rel=1e-4)
        assert new.log == [{k: pytest.approx(v, rel=1e-4) for k, v in record.items()} for record in old.log]
        assert new.evaluation.arrays.keys() == old.evaluation.arrays.keys()
        assert new.made["torch"]
        assert new.made["samples_per_second"] > 0


def test_one_training_may_have_two_names(carried_out):
    runner, trials, _ = carried_out
    again = run_trials([trials[1], dataclasses.replace(trials[1], label="the same")], runner, nothing)
    assert [outcome.trial.label for outcome in again] == ["CARE", "the same"]


def test_what_is_kept_suffices_without_the_runs(carried_out, tmp_path):
    runner, trials, outcomes = carried_out
    elsewhere = dataclasses.replace(runner, runs=tmp_path / "none")
    found = elsewhere.find(trials[1])
    assert found is not None
    assert found.run is None
    assert not found.evaluation.arrays
    for group, name in (
        ("classes", "linear probe (paper), top-1"),
        (ACTED_ON, "held-out ratio"),
        (ACTED_ON, "R² of the factor axis"),
    ):
        assert found.value(group, name) == pytest.approx(outcomes[1].value(group, name), rel=1e-5)


def test_a_trained_run_is_evaluated_without_training_it_again(carried_out):
    runner, trials, _ = carried_out
    kept, weights = runner.kept / f"{trials[0].slug}.json", runner.runs / trials[0].slug / "model.safetensors"
    before, written = json.loads(kept.read_text()), weights.stat().st_mtime_ns
    kept.unlink()
    run_trials(trials[:1], runner, nothing)
    after = json.loads(kept.read_text())
    assert weights.stat().st_mtime_ns == written
    assert {**after["evaluation"], "seconds": 0} == {**before["evaluation"], "seconds": 0}


def test_a_trial_of_a_split_embedding_is_measured_under_the_augmentations_of_the_method(tmp_path):
    """Colors alone act on its equivariant part, and it is measured under crops, too."""
    tiny = {"limit": 64, "epochs": 1, "batch_size": 16, "chunks": 4, "head_width": 16, "size": 12}
    tiny |= {"model": "small_resnet", "policy": "cifar10", "equivariance_policy": "color_only"}
    own = default_config("shapes", **tiny, equivariance="care")
    measures = EvaluationSettings(images=20, augmentations=1, probe="none", logistic=False)
    other = Trial("CARE", default_config("shapes", **tiny, equivariance="split", equivariant_dim=4), measures)
    runner = Runner(tmp_path / "runs", tmp_path / "kept", device="cpu")
    assert own.measured_policy == "color_only"
    (measured,) = (outcome.evaluation for outcome in run_trials([other], runner, nothing))
    assert measured.record["about"]["policy"] == "cifar10"
    families = {"all", "crop", "flip", "color", "gray", "blur", "hue"}
    assert set(measured.measurement("equivariant").families) == families


def test_a_longer_trial_goes_on_from_a_shorter_one(carried_out, tmp_path):
    """Of the trials that are done only one is the beginning of it, and what is done of that is not done again."""
    runner, _, outcomes = carried_out
    longer, steps = trial(epochs=2), []
    (runner.runs / "foreign").mkdir()
    (runner.runs / "foreign" / "config.toml").write_text("of = 'another version'")
    (runner.runs / "foreign" / "model.safetensors").touch()

    def progress(stage, done, total):
        if stage.startswith("training"):
            steps.append(done)

    (outcome,) = run_trials([longer], runner, progress)
    assert min(steps) == 5  # of 8, four of them in each epoch
    assert outcome.log[0] == outcomes[1].log[0]
    (afresh,) = run_trials([longer], Runner(tmp_path / "runs", tmp_path / "kept", device="cpu"), nothing)
    assert [record["loss"] for record in outcome.log] == [record["loss"] for record in afresh.log]
    assert outcome.value(ACTED_ON, "γ_f") == afresh.value(ACTED_ON, "γ_f")


def test_a_trial_that_another_process_has_is_waited_for(carried_out, tmp_path, monkeypatch):
    """The lock is held while the result is put in place by hand: nothing is trained here."""
    runner, trials, _ = carried_out
    mine = Runner(tmp_path / "runs", tmp_path / "kept", device="cpu")
    mine.runs.mkdir()
    mine.kept.mkdir()
    lock, kept = Lock(mine.runs / f".{trials[0].slug}.lock"), f"{trials[0].slug}.json"

    def finish():
        (mine.kept / kept).write_bytes((runner.kept / kept).read_bytes())
        lock.release()

    monkeypatch.setattr("care.reproduce.runner.SECONDS_BETWEEN_LOOKS", 0.1)
    timer = threading.Timer(0.5, finish)
    timer.start()
    assert run_trials(trials[:1], mine, nothing)[0].log
    timer.join()
    assert not (mine.runs / trials[0].slug).exists()


def test_one_process_at_a_time_trains_on_a_gpu(tmp_path):
    """The lock of a GPU is held by another process's open file: only the same GPU is waited for."""
    taken = Lock(tmp_path / ".training-GPU-a.lock")
    for other in (None, "GPU-b"):
        with _gpu_lock(other, tmp_path) as waited:
            assert not waited
    timer, begun = threading.Timer(0.3, taken.release), time.perf_counter()
    timer.start()
    with _gpu_lock("GPU-a", tmp_path) as waited:
        assert waited
        assert time.perf_counter() - begun > 0.25
        with pytest.raises(BlockingIOError):
            Lock(tmp_path / ".training-GPU-a.lock")
    timer.join()
    Lock(tmp_path / ".training-GPU-a.lock").release()


def test_the_rate_of_a_training_is_that_of_its_undisturbed_epochs(tmp_path):
    """The first epoch compiles; beside half of the others another process measures."""
    rates = [10, *(1000 + i for i in range(10)), *(600 + i for i in range(10))]
    lines = [json.dumps({"epoch": i, "seconds": 2.0, "samples_per_second": rate}) for i, rate in enumerate(rates)]
    (tmp_path / "speed.jsonl").write_text("\n".join(lines) + "\n")
    assert _speed(Run(tmp_path)) == {"training_seconds": 42.0, "samples_per_second": 1008}


def test_damage_is_told_with_the_name_of_the_file(carried_out, tmp_path, unchecked):
    runner, trials, _ = carried_out
    mine = Runner(tmp_path / "runs", tmp_path / "kept")
    mine.kept.mkdir()
    file = mine.kept / f"{trials[0].slug}.json"
    file.write_bytes((runner.kept / file.name).read_bytes()[:-200])
    with pytest.raises(ValueError, match=f"{file.name} is damaged"):
        mine.find(trials[0])


@pytest.fixture
def signals():
    """A command that was stopped ignores signals from then on, because its process ends: this one does not."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_it_can_be_stopped_and_goes_on(tmp_path, monkeypatch):
    """SIGTERM in the middle: exit code 75, and the same command ends with what was done kept."""
    words = ["reproduce", "proteins", "--scale", "smoke", "--part", "CARE", "--seed", "1", "--device", "cpu"]
    words += ["--out", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    plain = Run.write_log

    def stopping(run, log):
        plain(run, log)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write_log", stopping)
        stopped = CliRunner().invoke(app, words)
    assert stopped.exit_code == 75, stopped.output
    assert "the same command goes on" in stopped.stderr
    (run,) = (Run(file.parent) for file in tmp_path.glob("runs/*/config.toml"))
    assert len(run.log()) == 1
    assert not list(tmp_path.glob("results/smoke/trials/*.json"))
    with coarse_drawing():
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(list(tmp_path.glob("results/smoke/trials/*.json"))) == 1
    record = json.loads((tmp_path / "results/smoke/proteins/proteins.json").read_text())
    assert [t["seed"] for t in record["trials"]] == [1]
    assert record["command"] == "care reproduce proteins --scale smoke --part CARE --seed 1"
    assert (tmp_path / "results/smoke/proteins/orbits.png").stat().st_size > 3000
    assert (run.log()[0]["epoch"], len(run.log())) == (1, 2)
    with coarse_drawing(only=()):
        _the_table_of_what_is_done(tmp_path)


def _the_table_of_what_is_done(folder):
    """All of the study was asked for, one trial of six is there: it alone is in the table, and nothing is trained."""
    where = ["--out", str(folder / "results"), "--runs", str(folder / "runs")]
    shown = CliRunner().invoke(app, ["reproduce", "proteins", "--scale", "smoke", "--done", *where])
    assert shown.exit_code == 0, shown.output
    record = json.loads((folder / "results/smoke/proteins/proteins.json").read_text())
    assert record["command"] == "care reproduce proteins --scale smoke --done"
    assert [row[0] for row in record["table"]["rows"]] == ["CARE"]
    assert len(list(folder.glob("results/smoke/trials/*.json"))) == len(list(folder.glob("runs/*/config.toml"))) == 1


def test_another_default_is_another_trial(monkeypatch):
    """All settings count, whether somebody chose them or not."""
    before = trial()

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Others(SimCLRSettings):
        temperature: float = setting(0.2)

    monkeypatch.setattr("care.methods.simclr.SimCLR.Settings", Others)
    assert trial().config.method.settings.temperature != before.config.method.settings.temperature
    assert trial().slug != before.slug
    monkeypatch.undo()
    assert trial().slug == before.slug


def test_a_result_of_other_settings_is_refused(carried_out, tmp_path):
    """As a file has that was renamed, or edited."""
    _, trials, outcomes = carried_out
    outcomes[0].save(tmp_path)
    file = tmp_path / f"{trials[0].slug}.json"
    file.write_text(file.read_text().replace('"temperature":0.5', '"temperature":0.4'))
    with pytest.raises(ValueError, match="was made with other settings than its name says"):
        find_outcome(trials[0], tmp_path, {})


@pytest.mark.parametrize("scale", SCALES)
def test_trials_that_studies_share_are_measured_alike(scale):
    """Or what a study shows would depend on which of them was first."""
    measures = {}
    for study in STUDIES.values():
        for trial in study.trials(SCALES[scale]):
            slug = trial.slug
            assert measures.setdefault(slug, trial.measures) == trial.measures, (study.name, slug)
