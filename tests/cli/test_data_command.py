"""`care data`, as a user runs it."""

import json
import shutil

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from care.cli import app
from care.data import load


def run(*args, code=0):
    result = CliRunner().invoke(app, ["data", *map(str, args)], env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("the network was used"))
    return tmp_path / "root"


@pytest.fixture
def cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(bytes([i]) + bytes(3072))
    (folder / "test_batch.bin").write_bytes(bytes([9]) + bytes([255] * 3072))
    return folder


@pytest.fixture
def photos(tmp_path):
    for name in ("cat/1.jpg", "dog/1.jpg", "dog/2.jpg"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (1, 2, 3)).save(path)
    return tmp_path / "photos"


def test_prepare_load_and_check(cifar, root):
    output = run("prepare", "cifar10", "--from", cifar.parent)
    assert f"{root}/cifar10/train: 5 images of 32 × 32 pixels, 10 classes\n" in output
    assert f"{root}/cifar10/test: 1 images of 32 × 32 pixels, 10 classes\n" in output
    assert load("cifar10").labels.tolist() == [0, 1, 2, 3, 4]
    assert load("cifar10", "test").inputs.min() == 255
    assert "train: 5 images, all checksums match" in run("check", "cifar10")


def test_a_flipped_byte_is_found_by_check(cifar, root):
    run("prepare", "cifar10", "--from", cifar)
    file = root / "cifar10" / "train" / "images-00000.bin"
    file.write_bytes(b"\1" + file.read_bytes()[1:])
    assert f"{file} is not usable: the checksum of a block that begins in it is not" in run("check", "cifar10", code=2)


def test_list_says_what_is_prepared(cifar, root, photos):
    before = {line.split()[1]: line for line in run("list").splitlines() if line.startswith("│")}
    assert set(before) == {"chains", "shapes", "cifar10", "cifar100", "stl10", "flowers102", "imagenet100"}
    assert " no " in before["cifar10"]
    run("prepare", "cifar10", "--from", cifar, "--split", "test")
    run("prepare", "pets", "--from", photos)
    after = {line.split()[1]: line for line in run("list").splitlines() if line.startswith("│")}
    assert "test in " in after["cifar10"]
    assert "train in " in after["pets"]


def test_a_store_is_overwritten_only_on_request(cifar, root):
    run("prepare", "cifar10", "--from", cifar, "--split", "test")
    assert "exists: --overwrite replaces it" in run("prepare", "cifar10", "--from", cifar, code=2)
    assert not (root / "cifar10" / "train").exists()
    run("prepare", "cifar10", "--from", cifar, "--overwrite")
    assert len(load("cifar10")) == 5


def test_a_folder_of_photos_under_a_name_of_its_own(photos):
    output = run("prepare", "pets", "--from", photos, "--pixels", "16")
    assert "no data set is called pets (chains, shapes, cifar10" in output
    assert "reading it as a folder of pictures" in output
    assert "3 images of 16 × 16 pixels, 2 classes" in output
    samples = load("pets")
    assert (samples.classes, sorted(samples.labels.tolist())) == (("cat", "dog"), [0, 1, 1])
    assert samples.input_shape == (16, 16)


def test_photos_without_classes(photos):
    assert "2 images of 30 × 30 pixels, no classes\n" in run("prepare", "dogs", "--from", photos / "dog")
    assert (load("dogs").classes, load("dogs").labels.tolist()) == ((), [-1, -1])


def test_bad_files_are_left_out_and_listed_at_the_end(photos, root):
    (photos / "cat" / "2[x].jpg").write_bytes(b"")
    (photos / "dog" / "0.jpg").write_text("no picture")
    (photos / "dog" / "Thumbs.db").write_text("no picture")
    (photos / "dog" / "9.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    output = run("prepare", "pets", "--from", photos).splitlines()
    assert "pets train: 6 pictures to read" in output
    assert any(line.startswith("pets train: ignored, ") and line.endswith(": 1 .db") for line in output)
    assert f"{root}/pets/train: 3 images of 30 × 30 pixels, 2 classes" in output
    assert output[-4] == f"cannot be read, as listed in {root}/pets/train/skipped.txt:"
    bad = {
        f"{photos}/cat/2[x].jpg": "cannot be",
        f"{photos}/dog/0.jpg": "cannot be",
        f"{photos}/dog/9.heic": "is a HEIC",
    }
    told = dict(line.strip().split(": ", 1) for line in output[-3:])
    assert all(told[file].startswith(reason) for file, reason in bad.items())
    header = json.loads((root / "pets" / "train" / "store.json").read_text())
    assert [text.split(":")[0] for text in header["skipped"]] == list(told)


def test_too_many_bad_files_stop_it_and_more_can_be_left_out(photos, root, monkeypatch):
    monkeypatch.setattr("care.data.blocks.FEWEST_ROWS", 1)
    for i in range(30):
        (photos / "cat" / f"{i}.png").write_bytes(b"")
    output = run("prepare", "pets", "--from", photos, "--skip", "5%", code=2)  # two of 33: 22 are looked for
    assert output.count("cannot be read as a picture") == 20
    assert "  … 2 more\n" in output
    assert f"care: {root}/pets/train: 22 of the first " in output
    assert "and at most 2 may be left out; --skip 22 leaves them out and goes on where this stopped\n" in output
    assert len((root / "pets" / ".partial-train" / "store" / "skipped.txt").read_text().splitlines()) == 22
    output = run("prepare", "pets", "--from", photos, "--skip", "30")
    assert "pets train: goes on after " in output
    assert "3 images of 30 × 30 pixels" in output
    assert load("pets").labels.tolist().count(1) == 2
    assert [entry.name for entry in (root / "pets").iterdir()] == ["train"]


def test_the_same_command_again_prepares_what_is_missing(photos, tmp_path, root):
    whole = tmp_path / "whole"
    whole.mkdir()
    for split in ("train", "valid"):
        shutil.copytree(photos, whole / split)
    run("prepare", "pets", "--from", whole, "--split", "val")
    output = run("prepare", "pets", "--from", whole)
    assert f"{root}/pets/val: prepared already, from the same files\n" in output
    assert f"{root}/pets/train: 3 images" in output
    assert "train exists: --overwrite replaces it" in run("prepare", "pets", "--from", whole, "--pixels", "8", code=2)
    output = run("prepare", "pets", "--from", whole, "--pixels", "8", "--overwrite")
    assert output.count("3 images of 8 × 8 pixels") == 2
    images = root / "pets" / "val" / "images-00000.bin"
    images.write_bytes(b"\7" + images.read_bytes()[1:])
    output = run("prepare", "pets", "--from", whole, "--pixels", "8", "--overwrite")
    assert f"{root}/pets/train: prepared already, from the same files\n" in output
    assert f"{root}/pets/val: 3 images of 8 × 8 pixels" in output
    run("check", "pets")


def test_ctrl_c_ends_in_a_line_and_the_same_command_goes_on(photos, root, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("care.data.partial_store.PartialStore.add", interrupted)
        assert "stopped; the same command goes on where it was\n" in run("prepare", "pets", "--from", photos, code=75)
    assert "pets train: goes on after 0 of 3 files, " in run("prepare", "pets", "--from", photos)


def test_a_large_store_has_several_shards(photos, root):
    run("prepare", "pets", "--from", photos, "--pixels", 700, "--shard-size", 1)
    sizes = [shard.stat().st_size for shard in sorted((root / "pets" / "train").glob("images-*.bin"))]
    assert sizes == [2**20] * 4 + [3 * 3 * 700**2 - 4 * 2**20]
    assert "train: 3 images, all checksums match" in run("check", "pets")
    run("prepare", "same", "--from", photos, "--pixels", 700)
    assert torch.equal(load("pets").inputs, load("same").inputs)


def test_workers(photos, root):
    for workers in (1, 3):
        run("prepare", f"pets{workers}", "--from", photos, "--workers", workers)
    assert torch.equal(load("pets1").inputs, load("pets3").inputs)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("prepare", "cifar10"),
            "give either --from FOLDER or --download; the files are at https://www.cs.toronto.edu",
        ),
        (("prepare", "cifar10", "--from", "x", "--download"), "give either --from FOLDER or --download"),
        (("prepare", "flowers102", "--download"), "flowers102 cannot be downloaded by care"),
        (("prepare", "cifar10", "--from", "missing"), "missing does not exist"),
        (("prepare", "pets", "--from", "missing"), "missing is not a folder"),
        (("prepare", "chains", "--from", "."), "chains is generated when it is used"),
        (("prepare", "cifar10", "--from", ".", "--pixels", "64"), "all have the same size"),
        (("prepare", "cifar10", "--from", ".", "--split", "val"), "cifar10 has no split 'val', only train, test"),
        (("prepare", "..", "--from", "."), "'..' is not a valid name"),
        (
            ("prepare", "pets", "--from", ".", "--skip", "few"),
            "--skip takes a number of files, or a percentage such as 5%",
        ),
        (("prepare", "pets", "--from", ".", "--skip", "101%"), "--skip takes a number of files"),
        (("check", "cifar10"), "cifar10 is not prepared in"),
        (("check", "shapes"), "shapes is generated when it is used"),
    ],
)
def test_mistakes_are_told_in_a_line(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert message in run(*args, code=2)


def test_download_without_a_network(monkeypatch, root):
    def no_network(*_, **__):
        raise OSError("Network is unreachable")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    output = run("prepare", "cifar10", "--download", code=2)
    assert "cifar-10-binary.tar.gz cannot be downloaded (Network is unreachable); without a network" in output
    assert list(root.iterdir()) == []
