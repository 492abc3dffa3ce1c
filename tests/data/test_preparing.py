"""A folder of pictures becomes a store: the same to the last byte, whoever reads it and however it is cut."""

import pytest
import torch

from care.data import batches, open_store
from care.data.readers import Example, read_folder
from care.data.store import read_header
from care.data.store_writer import is_prepared
from data.preparing import FILES, SIDE, contents, prepare

pytestmark = pytest.mark.usefixtures("small_blocks")


def files_of(photos):
    """The pictures one by one, in the order of a store."""
    return list(read_folder(photos, "train", SIDE).examples)


def test_the_store_does_not_depend_on_the_number_of_workers(tmp_path, photos, undisturbed):
    prepare(tmp_path / "train", photos, workers=1)
    assert contents(tmp_path / "train") == undisturbed
    assert set(undisturbed) == {"images-00000.bin", "labels.bin", "blocks.sha256", "store.json", "skipped.txt"}


def test_the_last_rows_close_the_gaps(tmp_path, photos):
    """By hand: row i is that of file i; what cannot be read is replaced by the last that can."""
    prepare(tmp_path / "train", photos)
    read = [int(example.image[0, 0, 0]) if isinstance(example, Example) else None for example in files_of(photos)]
    missing = [i for i, red in enumerate(read) if red is None]
    assert len(missing) == 3
    for gap in missing:
        while read[-1] is None:
            read.pop()
        if gap < len(read):
            read[gap] = read.pop()
    samples = open_store(tmp_path / "train", verify=True)
    assert sorted(samples.inputs[:, 0, 0, 0].tolist()) == sorted(set(range(FILES)) - {3, 4, 15})
    assert len(samples) == len(read)
    kept = [i for i in range(len(read)) if i not in missing]
    assert [samples.inputs[i, 0, 0, 0].item() for i in kept] == [read[i] for i in kept]
    assert samples.labels.tolist() == [red % 2 for red in samples.inputs[:, 0, 0, 0].tolist()]


@pytest.mark.parametrize("shard_bytes", [1 << 16, 1 << 17, 1 << 30])
def test_shards_one_after_the_other_are_the_store_in_one_file(tmp_path, photos, shard_bytes):
    """A picture of 120,000 bytes lies in up to three shards."""
    header, _ = prepare(tmp_path / "train", photos, side=200, shard_bytes=shard_bytes)
    shards = sorted((tmp_path / "train").glob("images-*.bin"))
    assert len(shards) == -(-21 * 120_000 // shard_bytes)
    assert all(shard.stat().st_size == shard_bytes for shard in shards[:-1])
    whole = b"".join(shard.read_bytes() for shard in shards)
    prepare(tmp_path / "one", photos, side=200, shard_bytes=1 << 40)
    assert whole == (tmp_path / "one" / "images-00000.bin").read_bytes()
    assert header.blocks_sha256 == read_header(tmp_path / "one").blocks_sha256
    samples, one = open_store(tmp_path / "train", verify=True), open_store(tmp_path / "one")
    assert samples.digest() == one.digest()
    for epoch in range(2):
        order = samples.order(3, epoch)
        assert torch.equal(order, one.order(3, epoch))
        both = (batches(of, order.split(4), "cpu", resident=False) for of in (samples, one))
        assert all(torch.equal(a, b) for a, b in zip(*both, strict=True))


def test_a_store_of_the_same_files_is_known(tmp_path, photos):
    source = read_folder(photos, "train", SIDE)
    assert not is_prepared(tmp_path / "train", source)
    prepare(tmp_path / "train", photos)
    assert is_prepared(tmp_path / "train", source)
    assert not is_prepared(tmp_path / "train", read_folder(photos, "train", SIDE + 1))
    assert not is_prepared(tmp_path / "train", read_folder(photos / "a", "train", SIDE))
    images = tmp_path / "train" / "images-00000.bin"
    images.write_bytes(b"\xfe" + images.read_bytes()[1:])
    assert is_prepared(tmp_path / "train", source)
    assert not is_prepared(tmp_path / "train", source, verify=True)
    images.write_bytes(images.read_bytes()[1:])
    assert not is_prepared(tmp_path / "train", source)
