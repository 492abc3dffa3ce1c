"""Views as large as the pictures, wherever these come from."""

import statistics

import pytest
from PIL import Image

import care
from care.data import load, write_store
from care.data.picture_side import picture_side
from care.data.readers import read_folder
from care.export import export
from care.train import fitted_config, prepare, train
from care.train.job import load_samples
from cli.world import make_run
from data.on_disk import WRITERS
from train.small import small_config, small_data


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """The folder of all stores."""
    monkeypatch.setenv("CARE_DATA", str(tmp_path / "root"))
    return tmp_path / "root"


def photos(folder, *sizes):
    """A folder of four pictures of each size, without classes."""
    (folder / "train").mkdir(parents=True)
    for i, size in enumerate(4 * sizes):
        Image.new("RGB", size, "teal").save(folder / "train" / f"{i}.png")
    return folder


def side_of(file):
    with Image.open(file) as picture:
        return min(picture.size)


def prepared(folder, pictures, side):
    """The store of a folder of pictures, with views to measure on."""
    for split in ("train", "test"):
        write_store(folder / split, folder.name, split, read_folder(pictures, "train", side))


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([(32, 32)], ("small_images", 32, 24, 32)),
        ([(80, 64)], ("small_images", 64, 48, 64)),
        ([(96, 120)], ("mocov2", 96, 72, 96)),
        ([(5, 90)], ("small_images", 8, None, 8)),
        ([(40, 40), (40, 300), (300, 300)], ("small_images", 40, 32, 40)),  # most are small
        ([(40, 40), (224, 300), (300, 300)], ("mocov2", None, 168, None)),  # few are
    ],
)
@pytest.mark.usefixtures("stores")
def test_views_are_no_larger_than_most_pictures(sizes, found, tmp_path):
    config = fitted_config(str(photos(tmp_path / "photos", *sizes)))
    assert (config.policy, config.size, config.train_size, config.pixels) == found
    assert load_samples(config)[0].input_shape == 2 * (found[-1] or 256,)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.usefixtures("stores")
def test_the_side_is_read_from_headers_in_files_and_in_shards(kind, tmp_path):
    if kind in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    folder = WRITERS[kind](tmp_path / "photos", 6)
    whole = load(folder, pixels=99)
    for samples, n in ((whole, 6), (whole.limit(3), 3)):
        sides = [side_of(whole.stored.encoded.read(i)) for i in whole.rows[:n].tolist()]
        assert picture_side(samples) == statistics.median_high(sides)


@pytest.mark.usefixtures("stores")
def test_a_header_that_cannot_be_read_does_not_count(tmp_path):
    folder = photos(tmp_path / "photos", (40, 40))
    for name in "abcdefgh":
        (folder / "train" / f"{name}.png").write_bytes(b"no picture")
    assert picture_side(load(folder)) == 40
    for file in (folder / "train").glob("?.png"):
        file.write_bytes(b"")
    assert picture_side(load(folder, pixels=77)) == 77  # training reports the files


def test_a_store_says_how_large_its_pictures_are(stores, tmp_path):
    pictures = photos(tmp_path / "photos", (300, 300))
    for side, found in {48: ("small_images", 48), 160: ("mocov2", 160), 256: ("mocov2", None)}.items():
        prepared(stores / f"at-{side}", pictures, side)
        config = fitted_config(f"at-{side}")
        assert (config.policy, config.size, config.pixels) == (*found, None)
        assert care.data.open_store(stores / f"at-{side}" / "train").input_shape == (side, side)


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"size": 64}, ("mocov2", 64)),
        ({"policy": "byol"}, ("byol", 32)),
        ({"policy": "mocov2:gray=0.1"}, ("mocov2:gray=0.1", 32)),
        ({"policy": "mocov2:size=96"}, ("mocov2:size=96", None)),
        ({"policy": care.augment.ImagePolicy(size=48)}, ("simclr:size=48,kernel_size=3", None)),
        ({"equivariance": "care"}, ("small_images", 32)),
        ({"init": "timm/resnet18.a1_in1k"}, ("mocov2", None)),  # trained at 224 pixels
    ],
)
def test_what_is_chosen_remains(chosen, found, stores, tmp_path):
    prepared(stores / "mine", photos(tmp_path / "photos", (32, 32)), 32)
    config = fitted_config("mine", **chosen)
    assert (config.policy, config.size) == found


def test_weights_of_a_run_keep_the_size_that_they_were_trained_at(stores, tmp_path):
    prepared(stores / "mine", photos(tmp_path / "photos", (32, 32)), 32)
    prepared(stores / "larger", photos(tmp_path / "others", (100, 100)), 100)
    run = tmp_path / "run"
    train(prepare(small_config(small_data(tmp_path / "data"), epochs=1, limit=16, size=24), run))
    file, _ = export(make_run(tmp_path / "timm", str(tmp_path / "data"), model="test_resnet", size=32), "timm")
    for init, size in ((run, 24), (run / "model.safetensors", 24), (file, 32)):
        assert [fitted_config(data, init=str(init)).size for data in ("mine", "larger")] == [size, size]
    assert fitted_config("mine", init=str(run), size=16).size == 16


def test_prepared_pictures_are_not_enlarged(tmp_path):
    for side, stored in ((16, 16), (65, 65), (300, 256)):
        folder = photos(tmp_path / str(side), (side, side + 20))
        source = read_folder(folder, "train", None)
        assert (source.height, source.width) == (stored, stored)
        assert any(f"squares of {stored} pixels" in note for note in source.notes) == (stored < 256)
        assert read_folder(folder, "train", 77).height == 77
