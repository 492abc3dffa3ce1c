"""Checkpoints and weights that are cut, flipped, exchanged or forged are never taken for whole."""

import json
import os
import pickle
from hashlib import sha256
from pathlib import Path

import pytest
import safetensors.torch
import torch
from saved import at, equal, holds

from care.atomic_files import remove_folder, seal
from care.train.checkpoint import load_latest, load_weights, save, save_weights

MASKS = (0x01, 0x20, 0xFF)  # 0x20 turns a into A and space into NUL


def damaged(data):
    """All truncations, all bytes flipped in three ways, and a byte too many."""
    yield from (data[:length] for length in range(len(data)))
    yield from (data[:i] + bytes([data[i] ^ mask]) + data[i + 1 :] for i in range(len(data)) for mask in MASKS)
    yield data + b" "
    yield data + b"\0"


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
def test_any_damage_is_detected_and_the_file_named(file, tmp_path):
    small = {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(7)}
    save(tmp_path, 1, small, {"epoch": 1})
    save(tmp_path, 2, small, {"epoch": 2, "name": "x"})
    path = tmp_path / "step-00000002" / file
    whole = path.read_bytes()
    for data in damaged(whole):
        path.write_bytes(data)
        checkpoint = load_latest(tmp_path)
        assert checkpoint.step == 1
        assert len(checkpoint.skipped) == 1
        assert f"step-00000002/{file}" in checkpoint.skipped[0]
    path.write_bytes(whole)
    assert load_latest(tmp_path).step == 2


def test_any_damage_to_weights_is_detected(tmp_path):
    path = tmp_path / "weights.safetensors"
    tensors, metadata = {"w": torch.tensor([1.0, 2.0])}, {"arch": 'resnet "18"', "fake": '"sha256":"' + "0" * 64 + '"'}
    save_weights(path, tensors, metadata)
    assert equal(load_weights(path), (tensors, metadata))
    for data in damaged(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"weights\.safetensors is damaged"):
            load_weights(path)


def test_weights_can_be_read_by_others_and_other_weights_are_refused(tmp_path):
    save_weights(tmp_path / "ours.safetensors", {"w": torch.ones(2).bfloat16()}, {"arch": "resnet18"})
    assert equal(safetensors.torch.load_file(tmp_path / "ours.safetensors"), {"w": torch.ones(2).bfloat16()})
    safetensors.torch.save_file({"w": torch.ones(2)}, tmp_path / "theirs.safetensors")
    with pytest.raises(ValueError, match="was not written by care"):
        load_weights(tmp_path / "theirs.safetensors")
    with pytest.raises(ValueError, match="must not have the key sha256"):
        save_weights(tmp_path / "no.safetensors", {}, {"sha256": "mine"})
    with pytest.raises(FileNotFoundError):
        load_weights(tmp_path / "no.safetensors")


def test_missing_exchanged_and_renamed_files_are_detected(tmp_path):
    for step in (1, 2, 3, 4, 5):
        save(tmp_path, step, *at(step), keep=9)
    step = {n: tmp_path / f"step-0000000{n}" for n in range(1, 10)}
    (step[5] / "state.json").unlink()
    (step[4] / "tensors.safetensors").write_bytes((step[1] / "tensors.safetensors").read_bytes())
    step[3].rename(step[9])
    step[6].write_text("a file, not a folder")
    (step[7]).mkdir()
    checkpoint = load_latest(tmp_path)
    assert holds(checkpoint, 2)
    assert len(checkpoint.skipped) == 5
    for sentence, part in zip(
        checkpoint.skipped, ["9/state.json belongs to step 3", "7/", "6/", "5/", "4/tens"], strict=True
    ):
        assert f"step-0000000{part}" in sentence


def test_if_none_is_whole_all_are_named(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, *at(step))
    for path in tmp_path.iterdir():
        (path / "state.json").write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"(?s)step-00000002/state\.json.*step-00000001/state\.json"):
        load_latest(tmp_path)


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path(os.environ["CARE_BOMB"]),))


def planted(path, data, text=None):
    """A checkpoint that somebody made, with checksums that are right."""
    path.mkdir()
    record = {"sha256": "0" * 64, "format": 1, "step": 7, "tensor_bytes": len(data), "state": {}}
    record["tensor_sha256"] = sha256(data).hexdigest()
    (path / "tensors.safetensors").write_bytes(data)
    (path / "state.json").write_bytes(text or seal(json.dumps(record, separators=(",", ":")).encode()))


def test_a_pickle_never_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("CARE_BOMB", str(tmp_path / "ran"))
    bomb = pickle.dumps(Bomb())
    torch.save(Bomb(), tmp_path / "bomb.pt")
    for data in (bomb, (tmp_path / "bomb.pt").read_bytes()):
        planted(tmp_path / "step-00000007", data)
        with pytest.raises(ValueError, match="not a safetensors file"):
            load_latest(tmp_path)
        remove_folder(tmp_path / "step-00000007")
    assert not (tmp_path / "ran").exists()
    pickle.loads(bomb)
    assert (tmp_path / "ran").exists(), "the bomb is a dud and the test shows nothing"


@pytest.mark.parametrize(
    "rest",
    [
        b"}",
        b',"format":2,"step":7,"state":{},"tensor_bytes":0,"tensor_sha256":""}',
        b',"format":1}',
        b',"format":' + b"[" * 99_999,
        b",",
        b"\xff}",
    ],
    ids=["empty", "format", "keys", "deep", "json", "utf-8"],
)
def test_states_made_by_others_are_refused(rest, tmp_path):
    planted(tmp_path / "step-00000007", b"", seal(b'{"sha256":"' + b"0" * 64 + b'"' + rest))
    with pytest.raises(ValueError, match=r"step-00000007/state\.json"):
        load_latest(tmp_path)
