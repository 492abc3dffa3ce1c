"""Pictures that are decoded once and kept: the same bytes, and those of pictures as they are now."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from cached import EVERYTHING, SIDE, N, epoch
from on_disk import WRITERS, encoded, write_files, write_tars

from care.data import batches, pool
from care.data.readers import decoding
from care.data.streamed.opening import open_pictures
from care.train import prepare
from care.train.job import load_samples
from train.small import small_config, small_data

# Processes are forked, and the test process has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.parametrize(("kind", "whole"), [*((kind, True) for kind in WRITERS), ("files", False)])
def test_every_epoch_is_the_same_and_the_first_one_decodes(kind, whole, tmp_path, decoded):
    folder, cache = WRITERS[kind](tmp_path / "photos", N), tmp_path / "made" / "cache"
    right = epoch(folder, whole=whole)
    assert decoded() == EVERYTHING
    for seed, expected in ((1, EVERYTHING), (2, [])):
        assert torch.equal(epoch(folder, cache, whole, seed), right)
        assert decoded() == expected


def test_center_squares_whole_pictures_sizes_and_splits_have_files_of_their_own(tmp_path, decoded):
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    write_files(folder, 6, split="test")
    for split, side in (("train", 8), ("test", 8), ("train", 9)):
        for whole in (False, True):
            samples = open_pictures(folder, split, side, workers=1, cache=cache)
            list(batches(samples, [torch.arange(len(samples))], "cpu", whole=whole))
            assert decoded() == list(range(len(samples)))
    assert len(list(cache.iterdir())) == 2 * 6


def test_within_one_training_as_well(tmp_path, decoded):
    """The samples are opened once, and their batches are asked for in every epoch, by processes of its own."""
    samples = open_pictures(write_files(tmp_path / "photos", N), "train", SIDE, workers=2, cache=tmp_path / "cache")
    cache = samples.stored.opened_cache(whole=True)
    assert cache.kept() == 0
    for _ in range(2):
        list(batches(samples.limit(10), [torch.arange(10)], "cpu", whole=True))
    assert decoded() == sorted(samples.rows[:10].tolist())
    assert (cache.kept(), cache.kept(samples.rows[:10]), cache.kept(samples.rows[10:])) == (10, 10, 0)
    assert samples.stored.opened_cache(whole=True) is cache


def test_threads_and_systems_without_preadv(tmp_path, decoded, monkeypatch):
    folder, cache = write_files(tmp_path / "photos", N), tmp_path / "cache"
    right = epoch(folder)
    decoded()
    monkeypatch.setattr(pool.sys, "platform", "darwin")
    monkeypatch.delattr(os, "preadv")
    for expected in (EVERYTHING, []):
        assert torch.equal(epoch(folder, cache), right)
        assert decoded() == expected


def test_an_edited_picture_is_decoded_again(photos_there, decoded):
    """Replaced by another of as many bytes: names, labels and sizes are the same, and so is the key."""
    folder, cache, _ = photos_there
    files = sorted((folder / "train" / "cat").iterdir())
    assert files[0].stat().st_size == files[4].stat().st_size
    shutil.copyfile(files[4], files[0])
    right = epoch(folder)
    decoded()
    for expected in ([0], []):
        assert torch.equal(epoch(folder, cache), right)
        assert decoded() == expected
    assert len(list(cache.iterdir())) == 2


def test_a_shard_that_was_written_again_is_decoded_again(tmp_path, decoded):
    folder, cache = write_tars(tmp_path / "photos", N, shards=2), tmp_path / "cache"
    epoch(folder, cache)
    decoded()
    shard = sorted(folder.iterdir())[1]
    shard.write_bytes(shard.read_bytes().replace(encoded(12), encoded(16)))
    right = epoch(folder)
    decoded()
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING[N // 2 :]


@pytest.mark.parametrize("what", ["VERSION", "path"])
def test_other_programs_and_other_folders_decode_again(what, photos_there, decoded, monkeypatch, tmp_path):
    """Files of the same names, sizes and times may be others."""
    folder, cache, right = photos_there
    if what == "path":
        folder = Path(shutil.copytree(folder, tmp_path / "copy"))
    else:
        monkeypatch.setattr(decoding, "VERSION", -1)
    assert torch.equal(epoch(folder, cache), right)
    assert decoded() == EVERYTHING
    assert len(list(cache.iterdir())) == 2


def test_what_cannot_be_a_cache_is_told_before_anything_is_decoded(tmp_path):
    folder = write_files(tmp_path / "photos", N)
    (tmp_path / "file").touch()
    for wrong in ("file", "file/below"):
        with pytest.raises(ValueError, match=f"the cache .*{wrong} cannot be written: "):
            open_pictures(folder, cache=tmp_path / wrong)
    with pytest.raises(ValueError, match="photos/kept is inside the folder of the pictures"):
        open_pictures(folder, cache=folder / "kept")
    assert not (folder / "kept").exists()
    with pytest.raises(ValueError, match="by the CPU: leave out `cache` or `decoder` gpu"):
        open_pictures(folder, decoder="gpu", cache=tmp_path / "cache")


def test_systems_that_cannot_write_at_a_place_are_told(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pwrite")
    with pytest.raises(ValueError, match="a cache needs Linux or macOS: leave it out"):
        open_pictures(write_files(tmp_path / "photos", N), cache=tmp_path / "cache")


def test_a_prepared_data_set_has_nothing_to_keep(tmp_path):
    config = small_config(small_data(tmp_path / "store"), cache=str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="is prepared, so there is nothing to cache: leave out `cache`"):
        prepare(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "cache").exists()


def test_a_configuration_has_the_whole_path(tmp_path, monkeypatch):
    """A run that is resumed elsewhere finds the same folder."""
    monkeypatch.chdir(tmp_path)
    config = small_config(str(write_files(tmp_path / "photos", N)), cache="kept", validation=2)
    assert config.cache == str(tmp_path / "kept")
    assert type(config).from_toml(config.to_toml()) == config
    assert load_samples(config)[0].stored.cache == tmp_path / "kept"
    assert config.replace(cache="").cache is None
    assert load_samples(config.replace(cache=""))[0].stored.cache is None
