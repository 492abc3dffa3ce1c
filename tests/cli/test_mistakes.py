"""What a user gets wrong is told in one line that names the culprit, with exit code 2, before anything is made.

What we get wrong keeps its traceback.
"""

import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from care.cli import main, mistakes
from care.data import registry
from care.subjects import load_subject
from cli.world import make_world

SMALL = "train --data ./data --batch-size 16 --out new"
RANDOM = "measure timm/test_resnet@random --data ./data --size 32"

MISTAKES = {
    # anything at all
    "tran": "No such command 'tran'.*train",
    "--nope": "No such option: --nope; care --help lists",
    "train --epoch 3": "--epoch .*--epochs.*care train --help",
    "recipes extra": "unexpected extra argument.*care recipes --help",
    # care train
    "train": "say what to train on: --data shapes",
    "train --data shapes --epochs many": "'--epochs'.*valid integer",
    "train --data shapes --seed 1.5": "'--seed'.*valid integer",
    "train --data shapes --epochs 0": "epochs must be at least 1, got 0",
    "train --data shapes --epochs -3": "epochs must be at least 1, got -3",
    "train --data ./data --batch-size 1": "batch_size must be at least 2: one image has nothing to be compared with",
    "train --data ./data --batch-size 0": "batch_size must be at least 1",
    "train --data ./data --batch-size -4": "batch_size must be at least 1",
    "train --data ./data --batch-size 10000000000000 --equivariance 1": "batch_size must be at most 1048576",
    "train --data ./data --batch-size 1024": "100 samples do not fill one batch of 1024: choose a smaller",
    f"{SMALL} --equivariance 1 --chunks 3": "chunks must divide a batch of 16 .*these do: 1, 2, 4, 8",
    f"{SMALL} --equivariance 1 --chunks 0": "0 does not; these do: 1, 2, 4, 8",
    f"{SMALL} --temperature 0": "temperature must be greater than 0, got 0",
    f"{SMALL} --temperature -1": "temperature must be greater than 0, got -1",
    f"{SMALL} --temperature nan": "temperature must be a finite number, got nan",
    f"{SMALL} --temperature inf": "temperature must be a finite number, got inf",
    f"{SMALL} --learning-rate inf": "learning_rate must be a finite number",
    f"{SMALL} --learning-rate 0": "learning_rate must be greater than 0",
    f"{SMALL} --weight-decay inf": "weight_decay must be a finite number",
    f"{SMALL} --weight-decay -1": "weight_decay must not be negative",
    f"{SMALL} --equivariance inf": "equivariance must be a finite number",
    f"{SMALL} --equivariance -1": r"equivariance \(λ\) must not be negative",
    f"{SMALL} --model resnt18": "no model 'resnt18'; did you mean .*resnet18",
    f"{SMALL} --model deepset": "deepset takes point clouds; choose a timm model",
    "train --data chains --model resnet18 --out new": "point clouds need the model deepset, not resnet18",
    f"{SMALL} --policy rotations": "policy rotations cannot augment ./data: choose one for images",
    "train --data chains --chunk-policy cifar10 --out new": "chunk_policy cifar10 cannot augment chains: .* rotations",
    f"{SMALL} --policy cifar11": "policy must be one of .*cifar10.*got cifar11",
    f"{SMALL} --method simclear": "method must be one of simclr.*got 'simclear'",
    f"{SMALL} --form eucledian": "form must be one of euclidean, .*got eucledian",
    f"{SMALL} --views 3": "views must be one of 2, 4, got 3",
    f"{SMALL} --size 4": "size must be at least 8 pixels, got 4",
    f"{SMALL} --size 1000000": "size must be at most 4096 pixels, got 1000000",
    f"{SMALL} --embedding 1": r"embedding must be in \[2, 65536\], got 1",
    f"{SMALL} --embedding 100000000000": r"embedding must be in \[2, 65536\]",
    f"{SMALL} --head-width 0": r"head_width must be in \[1, 65536\], got 0",
    f"{SMALL} --head-depth 0": r"head_depth must be in \[1, 64\], got 0",
    f"{SMALL} --head-depth 100000000": r"head_depth must be in \[1, 64\]",
    f"{SMALL} --method mocov2 --queue 8": "the queue of 8 is smaller than a batch of 16",
    f"{SMALL} --method mocov2 --queue 100000000000000": r"queue must be in \[1, 16777216\]",
    f"{SMALL} --momentum 1.5": r"momentum must be in \[0, 1\), got 1.5",
    f"{SMALL} --identity 2": "identity is a probability, got 2",
    f"{SMALL} --ema 1": r"ema must be in \[0, 1\)",
    f"{SMALL} --limit 0": "limit must be at least 1, got 0",
    f"{SMALL} --limit 8": "8 samples do not fill one batch of 16",
    f"{SMALL} --limit 1000000": "noise has 100 samples, 1000000 cannot be taken",
    f"{SMALL} --validation 1000": "1000 of the 50 samples of class 'red' cannot be validation",
    f"{SMALL} --validation -2": "validation must not be negative, got -2",
    f"{SMALL} --split nosplit": "data/nosplit is not an image store, .*care data prepare",
    f"{SMALL} --device cuda": "no GPU that torch can use; use --device cpu",
    f"{SMALL} --device gpu": "device must be auto, cpu, cuda or cuda:1, got 'gpu'",
    f"{SMALL} --device meta": "device must be auto, cpu, cuda",
    f"{SMALL} --precision fp8": "precision must be one of auto, bf16, fp16, fp32, got 'fp8'",
    f"{SMALL} --optimizer adamm": "optimizer must be one of adam,",
    f"{SMALL} --warmup-epochs 1000": r"warmup_epochs must be in \[0, 400\]",
    f"{SMALL} --evaluate-every 0": "evaluate_every must be at least 1",
    f"{SMALL} --accumulate 3": "accumulate must divide the batch of 16",
    f"{SMALL} --accumulate 16": "accumulate must be at most 8, half a batch",
    f"{SMALL} --out file": "file: a file of that name is in the way: choose another",
    f"{SMALL} --out file/sub": "file: a file of that name is in the way",
    f"{SMALL} --out mine": "mine already holds a run: choose another --out, or .* --resume",
    f"{SMALL} --resume --out mine": "mine was started with another configuration: .*data: ./data instead of",
    "train --resume --out nowhere": "there is no run to resume in nowhere: say what to train on",
    "train --resume": "say which run to go on with: --resume --out FOLDER",
    "train --data shaps": "no data set is called 'shaps', there are .*; did you mean shapes",
    "train --data ./nowhere": "nowhere/train is not an image store.*care data prepare",
    "train --data ./empty": "empty/train is not an image store",
    "train --data ./file": "file/train is not an image store",
    "train --data ./data/train --batch-size 16": "neither a test nor a val split: --validation N cuts one",
    "train --data cifar10": "cifar10 has no split 'train' in .*run care data prepare cifar10",
    "train --config nowhere.toml": "nowhere.toml: it is not there",
    "train --config file": "file is not valid TOML",
    "train --config empty": "empty: it is a folder, and a file is wanted",
    "train --config latin.toml": "latin.toml is not text: .*TOML",
    "train --config nodata.toml": "nodata.toml does not say what to train on",
    "train --config many.toml": "many.toml: epochs must be a whole number, got 'many'",
    "train --config a --recipe b": "--config and --recipe cannot go together",
    "train --recipe cifar10-care-simcl": "no recipe is called 'cifar10-care-simcl'; did you mean cifar10-care-simclr",
    # care augment
    "augment": "Missing argument 'images'",
    "augment nowhere.png": "'nowhere.png' does not exist",
    "augment empty": r"empty holds no picture \(.jpg",
    "augment file": "file cannot be read as a picture",
    "augment photos --policy cifar11": "no policy is called 'cifar11'; .*did you mean cifar10",
    "augment photos --out grid.txt": "--out must end in .png, .svg or .pdf",
    "augment photos --out nowhere/grid.png": "nowhere/grid.png: it is not there, or the folder",
    "augment photos --out file/grid.png": "file/grid.png: ",
    "augment photos --columns 0": "'--columns'.*greater than or equal to 1",
    "augment photos --pixels 1000000": "'--pixels'.*less than or equal to 4096",
    "augment photos --seed 100000000000000000000000": "'--seed'.*less than or equal to",
    # care evaluate
    "evaluate": "Missing argument 'model'",
    "evaluate nowhere": "say what to evaluate it on: --data NAME",
    "evaluate nowhere --data shapes": "nowhere does not exist; a model is a run folder, timm/NAME",
    "evaluate unfinished": "unfinished/model.safetensors does not exist: has the run finished?",
    "evaluate empty": "empty/model.safetensors does not exist",
    "evaluate file --data shapes": "file cannot be read; a model is",
    "evaluate pickled.pt --data shapes": "pickled.pt is not TorchScript; a pickled checkpoint is not read",
    "evaluate mine --data nowhere": "no data set is called 'nowhere'",
    "evaluate mine --data chains": "the policy cifar10 cannot augment chains",
    "evaluate mine --data chains --policy rotations": r"mine does not take inputs of shape \[64, 3\]",
    "evaluate mine --split nosplit": "nosplit is not an image store",
    "evaluate mine --policy cifar11": "no policy is called 'cifar11'",
    "evaluate mine --policy rotations": "the policy rotations cannot augment noise: choose one for images",
    "evaluate mine --images 1": "'--images'.*greater than or equal to 20",
    "evaluate mine --augmentations 0": "'--augmentations'.*greater than or equal to 1",
    "evaluate mine --probe papr": "probe must be one of paper, imagenet100, none, got papr",
    "evaluate mine --probe-on cash": "probe_on must be one of cached, augmented, drifting, got cash",
    "evaluate mine --probe-epochs 0": "'--probe-epochs'",
    "evaluate mine --learning-rate -1": "learning_rates must be positive",
    "evaluate mine --learning-rate nan": "learning_rates must be positive",
    "evaluate mine --learning-rate 1 --learning-rate 2 --probe-on augmented": "takes one learning rate",
    "evaluate mine --logistic 0": "logistic, a penalty, must be greater than 0",
    "evaluate mine --logistic inf": "logistic, a penalty, must be greater than 0 and finite",
    "evaluate mine --seeds 0": "'--seeds'",
    "evaluate mine --device gpu": "device must be auto, cpu, cuda or cuda:1",
    "evaluate mine --device cuda": "use --device cpu",
    "evaluate mine --batch-size 0": "'--batch-size'",
    "evaluate mine --out file": "file: a file of that name is in the way",
    "evaluate mine --out /proc/nope": "/proc/nope: it is not there, or the folder",
    "evaluate timm/test_resnt@random --data ./data": "no model 'test_resnt'; did you mean test_resnet",
    # care measure
    "measure nowhere": "nowhere does not exist; a model is",
    "measure photos/a.png": "photos/a.png cannot be read; a model is",
    "measure theirs.safetensors": "theirs.safetensors is damaged, or was not written by care.*timm/NAME@",
    "measure timm/resnet5": "no model 'resnet5'; did you mean",
    "measure timm/test_resnet.nope": "no weights 'test_resnet.nope'; there are",
    "measure timm/test_resnet@nowhere.safetensors": "nowhere.safetensors is no .safetensors file",
    "measure mine --mean 0,0,0 --std 1,1,1": "mine is a run.*leave out mean and std",
    "measure unfinished": "has the run finished?",
    "measure timm/vit_tiny_patch16_224@random --data ./data --size 32": r"does not take inputs of shape \[3, 32, 32\]",
    f"{RANDOM} --data shaps": "did you mean shapes",
    f"{RANDOM} --data chains": "the policy simclr cannot augment chains: choose rotations",
    f"{RANDOM} --policy mine": "no policy is called 'mine'",
    f"{RANDOM} --mean a,b,c": "expected three numbers such as .*got 'a,b,c'",
    f"{RANDOM} --mean 0,0,0": "three numbers each",
    f"{RANDOM} --mean 0,0,nan --std 1,1,1": "all finite",
    f"{RANDOM} --mean 0,0,0 --std 1,1,inf": "all finite",
    f"{RANDOM} --augmentations 100000000000": "'--augmentations'.*less than or equal to 100000",
    f"{RANDOM} --size 100000000": "'--size'.*less than or equal to 4096",
    f"{RANDOM} --out file": "file: a file of that name is in the way",
    # care reproduce and care demo
    "reproduce wahbah --scale smoke": "nothing of the paper is called 'wahbah'; did you mean wahba",
    "reproduce figure-3": "nothing of the paper is called 'figure-3'; there are linear-probe, ",
    "reproduce wahba --scale huge": "scale must be one of smoke, small, long, paper, got 'huge'",
    "reproduce wahba --scale smoke --part CERA": "wahba has no such trial at scale smoke; it has SimCLR, CARE",
    "reproduce wahba --scale smoke --seed 7": "wahba has no such trial at scale smoke; it has SimCLR, CARE",
    "reproduce wahba --data cifar10": "cifar10 has no split .train. in .*care data prepare cifar10",
    "reproduce wahba --scale smoke --out file": "file: a file of that name is in the way",
    "reproduce wahba --scale smoke --device cuda": "device cuda was asked for",
    "demo --out file": "file: a file of that name is in the way",
    # care compare
    "compare": "Missing argument 'runs'",
    "compare first": "give at least two runs",
    "compare first first": "the same run was given twice",
    "compare first nowhere": "nowhere holds no evaluation: evaluation.json is missing, care evaluate makes it",
    "compare first file": "file holds no evaluation",
    "compare first mine": "mine holds no evaluation",
    "compare first second": "not of the same images and augmentations: seed: 1 for mine, 0 for mine",
    "compare first third --out file": "file: a file of that name is in the way",
    # care export
    "export mine": "Missing option '--to'",
    "export mine --to caffe": "--to must be one of timm, onnx, torchscript, got caffe",
    "export nowhere --to onnx": "nowhere does not exist: give the folder of a finished run",
    "export unfinished --to onnx": "has the run finished?",
    "export file --to timm": "file is damaged, or was not written by care",
    "export mine --to timm --out nowhere/x.safetensors": "nowhere/x.safetensors: it is not there, or the folder",
    "export mine --to timm --out empty": "empty: it is a folder, and a file is wanted",
    # care bench
    "bench nope": "no part of the benchmark is called 'nope'; there are train",
    "bench --device gpu": "device must be auto, cpu, cuda or cuda:1",
    "bench train --model resnt18": "did you mean .*resnet18",
    "bench train --batch-size 1": "a batch of 1 has no chunks to compare, at least 4",
    "bench train --batch-size 100000000": "a store of 10000 images does not fill one batch",
    "bench train --size 3": "size must be at least 8 pixels",
    "bench train --size 1000000": "10000 images of 1000000 pixels take more than",
    "bench train --seconds nan": "positive number of seconds",
    "bench scaling --processes a,b": "expected numbers of processes such as 1,2,4, got 'a,b'",
    "bench scaling --processes 100000": r"numbers of processes must be in \[1, 1024\]",
    "bench loader --images 100000000000000": "100000000000000 images of 32 pixels take more than",
    "bench train --out file/x.json": "file: a file of that name is in the way",
    "bench train --out empty": "empty: it is a folder, and a file is wanted",
    # care data
    "data nope": "No such command 'nope'; care data --help",
    "data prepare": "Missing argument 'name'",
    "data prepare cifar10": "give either --from FOLDER or --download; the files are at",
    "data prepare cifar10 --from nowhere": "nowhere does not exist: --from takes",
    "data prepare cifar10 --from empty": "empty holds neither data_batch_1.bin nor data_batch_1",
    "data prepare cifar10 --from file": "file is neither a folder nor an archive",
    "data prepare cifar10 --from data --split val": "cifar10 has no split 'val', there are train, test",
    "data prepare cifar10 --from data --size 64": "--size cannot change it",
    "data prepare flowers102 --download": "cannot be downloaded by care; give --from FOLDER, the files are at",
    "data prepare shapes --from data": "shapes is generated when it is used",
    "data prepare new --from empty": "empty has no folders of classes",
    "data prepare new --from file": "file is not a folder",
    "data prepare new --from photos": "photos has no folders of classes",
    "data prepare new --from one --size 100000000": "--size must be from 1 to 4096",
    "data prepare new --from one --skip -1": "'--skip'",
    "data prepare new --from one --root file": "file/new: a file is where a folder should be",
    "data prepare a/b --from one": "'a/b' cannot be a name",
    "data check cifar10": "cifar10 is not prepared in .*care data list",
    "data check ../x": "'../x' cannot be a name",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("world"))


WORK = {
    "train": "run_training",
    "evaluate": "evaluate_model",
    "measure": "measure_observed",
    "bench": "measure_speed",
}


def replace(monkeypatch, command, work, function):
    monkeypatch.setattr(sys.modules[f"care.cli.{command}"], work, function)


def fails(args, capsys):
    """(exit code, what is on the error stream) of a command run in this process."""
    sys.argv[1:] = args
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_takes_one_line(command, world, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(world)
    monkeypatch.setenv("CARE_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["care"])
    for name, work in WORK.items():
        replace(monkeypatch, name, work, lambda *_, **__: pytest.fail("the mistake was not seen"))
    before = sorted(world.rglob("*"))
    code, error = fails(command.split(), capsys)
    assert (code, error.count("\n")) == (2, 1), error
    assert error.startswith("care: ")
    assert re.search(MISTAKES[command], error), error
    assert "[Errno" not in error
    assert sorted(world.rglob("*")) == before


def test_a_mistake_takes_one_line_in_a_process_of_its_own(world):
    """As a user starts it: nothing of Python, of a library or of a warning is seen."""
    environment = {**os.environ, "CARE_DATA": str(world / "root"), "NO_COLOR": "1"}
    started = [sys.executable, "-m", "care", "evaluate", "mine", "--learning-rate", "-1"]
    done = subprocess.run(started, cwd=world, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert re.fullmatch(r"care: .+\n", done.stderr)


def test_a_group_of_commands_alone_prints_its_help(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["care", "data"])
    with pytest.raises(SystemExit, match="2"):
        main()
    printed = capsys.readouterr()
    assert "prepare" in printed.out
    assert printed.err == ""


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("ours", [TypeError, KeyError, RuntimeError, AssertionError, IndexError])
def test_our_errors_keep_their_traceback(ours, monkeypatch, tmp_path):
    """Also where the user's input is read: only what is meant for the user is a ValueError."""

    def broken(*_):
        raise ours("our fault")

    monkeypatch.setattr(registry, "prepared_splits", broken)
    monkeypatch.setattr(sys, "argv", ["care", "data", "check", "cifar10", "--root", str(tmp_path)])
    with pytest.raises(ours, match="our fault"):
        main()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["evaluate", "measure"])
def test_a_value_error_of_the_work_itself_is_ours(name, world, monkeypatch, tmp_path):
    def broken(*_, **__):
        raise ValueError("our fault")

    replace(monkeypatch, name, WORK[name], broken)
    command = ["care", name, str(world / "mine"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    data = ["--data", str(world / "data")] if name == "measure" else []
    monkeypatch.setattr(sys, "argv", command + data)
    with pytest.raises(ValueError, match="our fault"):
        main()


def test_a_line_shows_what_it_holds_and_obeys_none_of_it(monkeypatch, capsys):
    """Markup, emoji names, escape sequences, new lines and text that runs backwards, as the name of a file may have."""
    monkeypatch.setattr(mistakes, "Console", lambda **options: Console(**options, force_terminal=True, width=40))
    name = "[red]x[/red] :cat: \x1b[31m \x07 \n \u202e \udcff.png"
    with pytest.raises(mistakes.typer.Exit), mistakes.users_input():
        raise ValueError(f"{name} cannot be read")
    shown = capsys.readouterr().err
    assert shown.endswith(r"[red]x[/red] :cat: \x1b[31m \x07   \u202e \udcff.png cannot be read" + "\n")
    assert shown.count("\n") == 1
    assert shown.count("\x1b") == 2  # the color of "care:", and its end


@pytest.mark.parametrize("what", ["timm/test_resnet@random", "timm/test_resnet"])
def test_a_fault_of_ours_while_a_model_is_loaded_is_not_the_users(what, monkeypatch):
    def broken(*_, **__):
        raise TypeError("our fault")

    monkeypatch.setattr("timm.create_model", broken)
    monkeypatch.setattr("care.subjects.timm_model._ask_hub", lambda _: None)  # it has an answer
    with pytest.raises(TypeError, match="our fault"):
        load_subject(what)
