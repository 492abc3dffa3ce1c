"""Nothing in a file runs, nothing leaves an archive, nothing is sent, and nothing shown is obeyed."""

import ast
import io
import os
import pickle
import socket
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from care.atomic_files import write_atomically
from care.cli import app
from care.data.readers import read_cifar10
from care.tables import text_table, visible
from care.train.progress import Terminal
from cli.world import make_evaluation, make_run
from train.small import small_data

SOURCE = Path(__file__).parent.parent / "src" / "care"
HARMLESS = "data/readers/pickles.py"  # reads the opcodes of a pickle and runs none of the names in it


def calls(tree):
    """(dotted name, keyword arguments) of every call in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            yield ast.unparse(node.func), keywords


def unpickles(name, keywords):
    if name in ("torch.load", "load_state_dict_from_url") or "hub.load" in name:
        return keywords.get("weights_only") != "True"
    if name in ("np.load", "numpy.load"):
        return keywords.get("allow_pickle", "False") != "False"
    return name.startswith(("pickle.", "dill.", "joblib.", "shelve.", "marshal.")) or name in ("eval", "exec")


def offenses(source):
    tree = ast.parse(source)
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (*node.names, *([ast.alias(node.module or "")] if isinstance(node, ast.ImportFrom) else []))
    ]
    risky = {"pickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"} & set(imported)
    return [*risky, *(name for name, keywords in calls(tree) if unpickles(name, keywords))]


def test_nothing_is_unpickled():
    found = {str(path.relative_to(SOURCE)): offenses(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {HARMLESS: ["pickle"]}


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "np.load(f, allow_pickle=True)",
        "pickle.loads(x)",
        "from pickle import loads",
        "import joblib",
        "eval(x)",
    ],
)
def test_an_unpickling_line_would_be_seen(line):
    assert offenses(line)


def test_weights_alone_are_no_offense():
    assert not offenses("torch.load(f, weights_only=True); np.load(f); model.load_state_dict(x)")


class Bomb:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secure")
    make_run(folder / "run", small_data(folder / "data", n=100))
    make_evaluation(folder / "evaluation")
    return folder


def bombs(harm):
    """A malicious object as Python, torch (new and old) and numpy would write it."""
    found, new, old = {"pickle": pickle.dumps(Bomb(harm))}, io.BytesIO(), io.BytesIO()
    torch.save(Bomb(harm), new)
    torch.save(Bomb(harm), old, _use_new_zipfile_serialization=False)
    return found | {"torch": new.getvalue(), "torch-old": old.getvalue()}


READ_BY = {
    "run/model.safetensors": [["evaluate", "run"], ["measure", "run"], ["export", "run", "--to", "timm"]],
    "run/config.toml": [["train", "--resume", "--out", "run"], ["train", "--config", "run/config.toml"]],
    "run/log.jsonl": [["evaluate", "run"]],
    "run/checkpoints/*/state.json": [["train", "--resume", "--out", "run"]],
    "run/checkpoints/*/tensors.safetensors": [["train", "--resume", "--out", "run"]],
    "data/train/store.json": [["train", "--data", "./data", "--out", "new"]],
    "evaluation/evaluation.json": [["compare", "evaluation", "run"]],
    "evaluation/arrays.safetensors": [["compare", "evaluation", "run"]],
    "model.pt": [["measure", "model.pt", "--data", "./data"], ["evaluate", "model.pt", "--data", "./data"]],
    "model.onnx": [["measure", "model.onnx", "--data", "./data"]],
    "model.safetensors": [["measure", "timm/test_resnet@model.safetensors", "--data", "./data"]],
    "picture.png": [["augment", "picture.png"]],
    "cifar/data_batch_1": [["data", "prepare", "cifar10", "--from", "cifar"]],
    "cifar.tar.gz": [["data", "prepare", "cifar10", "--from", "cifar.tar.gz"]],
    "flowers/imagelabels.mat": [["data", "prepare", "flowers102", "--from", "flowers"]],
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("pattern", READ_BY)
def test_a_malicious_pickle_never_runs_whoever_reads_it(world, pattern, monkeypatch, tmp_path):
    """In the place of every file that a command reads: one error, and nothing of the pickle happens."""
    monkeypatch.chdir(world)
    monkeypatch.setenv("CARE_DATA", str(tmp_path))
    file = next(iter(world.glob(pattern)), world / pattern)
    before, harm = file.read_bytes() if file.exists() else None, tmp_path / "harm"
    file.parent.mkdir(exist_ok=True)
    try:
        for data in bombs(harm).values():
            file.write_bytes(data)
            for command in READ_BY[pattern]:
                result = CliRunner().invoke(app, command)
                assert result.exit_code == 2, (command, result.output, result.exception)
                assert not harm.exists()
    finally:
        file.unlink() if before is None else file.write_bytes(before)


def test_the_bombs_go_off_elsewhere(tmp_path):
    """Or the test above would show nothing."""
    pickle.loads(bombs(tmp_path / "harm")["pickle"])
    assert (tmp_path / "harm").is_dir()
    torch.load(io.BytesIO(bombs(tmp_path / "torch")["torch"]), weights_only=False)
    assert (tmp_path / "torch").is_dir()


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, link, size
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../cifar-10-batches-bin/test_batch.bin", tarfile.REGTYPE),
        ("/cifar-10-batches-bin/test_batch.bin", tarfile.REGTYPE),
        ("cifar-10-batches-bin/../cifar-10-batches-bin/test_batch.bin", tarfile.REGTYPE),
        ("cifar-10-batches-bin/test_batch.bin", tarfile.SYMTYPE),
        ("cifar-10-batches-bin/test_batch.bin", tarfile.LNKTYPE),
        ("cifar-10-batches-bin/test_batch.bin", tarfile.CHRTYPE),
        ("cifar-10-batches-bin/test_batch.bin", tarfile.FIFOTYPE),
    ],
)
def test_paths_in_archives_cannot_escape(tmp_path, name, kind):
    """Archives are never unpacked: members are found by their exact name or not at all, and only if they are plain."""
    (tmp_path / "secret.bin").write_bytes(bytes(3073))
    (tmp_path / "here").mkdir()
    archive = tmp_path / "here" / "cifar.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        size = 3073 if kind == tarfile.REGTYPE else 0
        tar.addfile(member(name, kind, str(tmp_path / "secret.bin"), size), io.BytesIO(bytes(size)))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"holds neither test_batch\.bin nor test_batch"):
        list(read_cifar10(archive, "test").examples)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_zip_is_not_taken_for_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "cifar.zip", "w") as archive:
        archive.writestr("../../escaped", "x")
    with pytest.raises(ValueError, match="neither a folder nor an archive"):
        list(read_cifar10(tmp_path / "cifar.zip", "test").examples)


def test_names_of_data_sets_cannot_escape(monkeypatch, tmp_path):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    save_picture(tmp_path / "photos" / "cat" / "a.png")
    for name in ("..", "../x", "/etc/x", ".hidden", "a/b", "a\nb", ""):
        result = CliRunner().invoke(app, ["data", "prepare", name, "--from", str(tmp_path / "photos")])
        assert result.exit_code == 2
        assert "is not a valid name" in result.output.replace("\n", " ")
    assert not (tmp_path / "root").exists()


@pytest.mark.usefixtures("coarse_pictures")
def test_nothing_uses_the_network_unless_asked_to(world, monkeypatch):
    """Training, measuring, evaluating and listing; and a download is seen to be the first to look for a connection."""
    connected, run = [], CliRunner()

    def refuse(*_, **__):
        connected.append(command)
        raise SystemExit(99)

    monkeypatch.chdir(world)
    monkeypatch.setenv("CARE_DATA", str(world / "root"))
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    small = "--device cpu --epochs 1 --batch-size 16 --limit 16 --model small_resnet --size 16 --embedding-dim 8"
    quick = "--images 20 --augmentations 1 --device cpu"
    for command in (
        f"train --data ./data --out trained {small}",
        f"measure timm/test_resnet@random --data ./data --size 16 --no-families {quick} --out measured",
        f"evaluate trained {quick} --probe none --no-logistic",
        "data list",
    ):
        assert run.invoke(app, command.split()).exit_code == 0, command
        assert not connected
    command = "data prepare cifar10 --download"
    assert run.invoke(app, command.split()).exit_code == 99
    assert connected == [command]


NAME = "[red]x[bold] :cat: \x1b[31m\x07\r\u202e"


def save_picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 9)).save(path, "PNG")


@pytest.mark.usefixtures("unchecked")
def test_names_of_files_are_shown_and_not_obeyed(tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "[b]root[/b]"))
    save_picture(tmp_path / "photos" / "cat" / "a.png")
    (tmp_path / "photos" / "cat" / f"{NAME}.png").write_bytes(b"")
    command = ["data", "prepare", "pets", "--from", str(tmp_path / "photos"), "--skip", "1"]
    shown = CliRunner().invoke(app, command, env={"FORCE_COLOR": "1", "COLUMNS": "300"})
    assert shown.exit_code == 0, shown.output
    assert visible(f"{NAME}.png") in shown.output
    assert not {"\x1b[31m", "\x07", "\u202e", "🐱"} & set(shown.output.split())
    assert "\x1b[31m" not in shown.output
    listed = CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "300"})
    assert "[b]root[/b]" in listed.output


def test_tables_and_progress_show_and_do_not_obey(capsys):
    table = text_table(NAME, [NAME, "b"], [[NAME, "1"]])
    assert table.count(visible(NAME)) == 3
    assert all(line.isprintable() for line in table.splitlines())
    Terminal(Console(force_terminal=True, width=300)).say(NAME)
    assert capsys.readouterr().out == visible(NAME) + "\n"


def test_temporary_files_are_never_more_open_than_the_rest(tmp_path):
    """What others may not read is not readable for them while it is written, nor afterwards."""
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o077 == 0
