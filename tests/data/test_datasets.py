"""Pictures given in Python become what a person would make of them."""

from pathlib import PurePosixPath
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset

from care.data import Samples, open_store
from care.data.datasets import Examples, read_dataset
from care.data.user_splits import UserSplit, data_set_name, store_user_splits, user_splits
from data.photos import Photos


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3, 4, 4)


@pytest.fixture
def levels():
    return np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)


def forms(levels):
    channels = torch.from_numpy(levels.transpose(2, 0, 1).copy())
    return {
        "pil": Image.fromarray(levels),
        "uint8": channels,
        "float": channels.double() / 255,
        "half": (channels.float() / 255).half(),
        "array": levels,
        "array, channels first": channels.numpy(),
    }


@pytest.mark.parametrize("form", forms(np.zeros((9, 11, 3), np.uint8)))
def test_every_form_is_the_same_picture(levels, form):
    example = Examples([forms(levels)[form]])[0]
    assert example.label == -1
    np.testing.assert_array_equal(example.image.transpose(1, 2, 0), levels)


def test_gray_has_three_channels(levels):
    gray = torch.from_numpy(levels[..., 0].copy())
    for picture in (gray, gray[None], Image.fromarray(levels[..., 0])):
        np.testing.assert_array_equal(Examples([picture])[0].image, gray.expand(3, -1, -1).numpy())


def test_pictures_of_pillow_are_read_as_those_in_files_are(levels, tmp_path):
    alpha = np.linspace(0, 255, 99).round().astype(np.uint8).reshape(9, 11, 1)
    transparent = Image.fromarray(np.concatenate([levels, alpha], 2))
    over_white = levels * (alpha / 255) + 255 * (1 - alpha / 255)
    np.testing.assert_allclose(Examples([transparent])[0].image.transpose(1, 2, 0), over_white, atol=1)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° to the right
    Image.fromarray(levels).save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as turned:
        np.testing.assert_array_equal(Examples([turned])[0].image.transpose(1, 2, 0), np.rot90(levels, -1))


def test_pictures_without_a_common_size_become_squares_as_pillow_makes_them(levels):
    wide, tall = Image.fromarray(levels).resize((40, 20)), Image.fromarray(levels).resize((20, 30))
    large = [Image.new("L", size) for size in ((300, 280), (400, 500), (257, 999))]
    assert Examples(large).size == (256, 256)
    square = Examples([wide, tall], pixels=10)[0].image.transpose(1, 2, 0)
    expected = np.asarray(wide.resize((10, 10), Image.Resampling.BILINEAR, (10, 0, 30, 20)))
    np.testing.assert_array_equal(square, expected)


def test_small_pictures_of_different_sizes_are_not_enlarged():
    """Most of them keep their shorter side, as those of a folder: only the one of 24 pixels is enlarged."""
    sizes = [(40, 90), (60, 40), (24, 30), (50, 48), (45, 300)]
    assert Examples([Image.new("RGB", size) for size in sizes]).size == (40, 40)
    assert Examples([torch.zeros(3, 8, 6), torch.zeros(3, 6, 8)]).size == (6, 6)


def test_labels_count_where_classes_are_named(levels):
    pictures = [(levels, torch.tensor(1)), (levels, 0), (levels, np.int64(1))]
    assert [Examples(Photos(pictures))[i].label for i in range(3)] == [-1, -1, -1]
    named = Photos(pictures, classes=["cat", "dog"])
    assert [Examples(named)[i].label for i in range(3)] == [1, 0, 1]
    part = Examples(Subset(named, [1, 2]))
    assert part.classes == ("cat", "dog")
    assert [part[i].label for i in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("label", "number"),
    [
        *((kind, 1) for kind in (np.array(1), np.array([1]), torch.tensor([[1]]), np.uint8(1), 1.0, torch.tensor(1.0))),
        ("b", 1),
        (np.str_("a"), 0),
        (None, -1),
        (torch.tensor(-1), -1),
    ],
)
def test_a_class_is_given_by_its_number_or_name(levels, label, number):
    assert Examples(Photos([(levels, label)], classes=["a", "b"]))[0].label == number


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("label", "shown"),
    [("c", "c"), (2, "2"), (-2, "-2"), (0.5, "0.5"), (float("nan"), "nan"), (np.array([0, 1]), r"\[0 1\]")],
)
def test_a_label_that_is_no_class_is_told_in_a_sentence(levels, label, shown):
    wanted = "return the name of a class, its number from 0 to 1, or None"
    with pytest.raises(ValueError, match=f"^item 1 .*: its label {shown} is none of the 2 classes: {wanted}$"):
        Examples(Photos([(levels, 0), (levels, label)], classes=["a", "b"]))
    assert Examples(Photos([(levels, label)]))[0].label == -1  # without classes, labels are not used


class Rows(Photos):
    """As the library `datasets` has them: rows are dictionaries, and the features know the names of the classes."""

    def __init__(self, items, **names):
        super().__init__(items)
        self.features = {"image": object(), **{column: SimpleNamespace(names=of) for column, of in names.items()}}


@pytest.mark.parametrize(("picture", "label"), [("image", "label"), ("img", "fine_label")])
def test_rows_of_datasets_are_pictures_with_labels(levels, picture, label):
    rows = [{picture: Image.fromarray(levels), label: 1, "other": "x"}, {picture: Image.fromarray(levels), label: 0}]
    named = Rows(rows, **{label: ["cat", "dog"]})
    for pictures in (named, Subset(named, [0, 1])):
        examples = Examples(pictures)
        assert (examples.classes, [examples[i].label for i in range(2)]) == (("cat", "dog"), [1, 0])
        np.testing.assert_array_equal(examples[0].image.transpose(1, 2, 0), levels)
    assert Examples(Rows(rows)).classes == ()
    assert Examples([{picture: levels}])[0].label == -1


def test_all_are_read_once_in_a_fixed_order(levels):
    tensor = torch.arange(20, dtype=torch.uint8)[:, None, None, None].expand(20, 3, 4, 5)
    source = read_dataset(tensor)
    read = [int(example.image[0, 0, 0]) for example in source.examples]
    assert sorted(read) == list(range(20))
    assert read == [int(example.image[0, 0, 0]) for example in read_dataset(tensor).examples]
    assert read != list(range(20))
    assert (source.height, source.width, source.expected) == (4, 5, 20)
    samples = Samples(tensor.contiguous(), torch.arange(20) % 2, ("even", "odd"))
    assert {(int(e.image[0, 0, 0]) % 2, e.label) for e in read_dataset(samples).examples} == {(0, 0), (1, 1)}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        ([torch.full((3, 4, 4), 2.0)], "from 2 to 2: divide by 255, or take Normalize out"),
        ([torch.full((3, 4, 4), torch.nan)], r"in \[0, 1\]"),
        (
            [torch.zeros(3, 4, 4, dtype=torch.int64)],
            "item 0 cannot be trained on: pictures must be uint8 or floating point",
        ),
        ([torch.zeros(4, 4, 4)], r"expected a picture \[3, height, width\], got \[4, 4, 4\]"),
        ([{"image": 1}], "item 0 cannot be trained on: expected a PIL image, a tensor or a NumPy array, got int"),
        (
            [{"text": 1, "x": 2}],
            "item 0 cannot be trained on: no picture among its keys text, x: expected image or img",
        ),
        (
            {"train": [1], "test": [2]},
            "a dict of train and test cannot be trained on: pass one of them as data, and another as heldout",
        ),
        ([], "this list holds no pictures"),
        ([PurePosixPath("1.jpg")], "item 0 cannot be trained on: .* got PurePosixPath: open it, or give the folder"),
        (DataLoader([1, 2]), "a DataLoader cannot be trained on: give its dataset"),
        (Endless(), "Endless cannot be trained on: give a folder, a tensor"),
        (
            Samples(torch.zeros(2, 5, 3), torch.zeros(2, dtype=torch.int64), ("a",)),
            "point clouds cannot be passed as Samples",
        ),
    ],
)
def test_what_is_no_picture_is_told_in_a_sentence(pictures, message):
    with pytest.raises(ValueError, match=message):
        Examples(pictures)


def store(folder, data, heldout=None, keep=False):
    store_user_splits(user_splits(data, heldout, None, 0), folder / "data", keep, print, lambda *_: None)


def test_what_is_given_again_is_recognized(tmp_path):
    pictures = torch.randint(256, (90, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    store(tmp_path, pictures)
    before = (tmp_path / "data" / "train" / "store.json").stat().st_mtime_ns
    for same in (pictures, list(pictures), pictures.double() / 255):
        store(tmp_path, same, keep=True)
    for other in (pictures[:80], pictures.flip(3), pictures[:, :, :3]):
        with pytest.raises(ValueError, match=r"not the pictures that the run in .* was started with"):
            store(tmp_path, other, keep=True)
    assert (tmp_path / "data" / "train" / "store.json").stat().st_mtime_ns == before
    store(tmp_path, pictures[:80], heldout=pictures[80:])
    assert [len(open_store(tmp_path / "data" / split)) for split in ("train", "test")] == [80, 10]
    store(tmp_path, pictures)  # a test split that is not given does not stay
    assert [folder.name for folder in (tmp_path / "data").iterdir()] == ["train"]


def test_held_out_pictures_have_the_same_classes(tmp_path):
    cats, dogs = (Photos([(np.zeros((4, 4, 3), np.uint8), 0)] * 3, [name]) for name in ("cat", "dog"))
    with pytest.raises(ValueError, match="the classes of the training pictures, or none: train: cat and test: dog"):
        store(tmp_path, cats, dogs)
    store(tmp_path, cats, [np.zeros((4, 4, 3), np.uint8)])


def test_a_folder_has_its_own_splits(tmp_path, levels, capsys):
    for part in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / "photos" / part / name).mkdir(parents=True)
            Image.fromarray(levels).save(tmp_path / "photos" / part / name / "1.png")
    splits = user_splits(str(tmp_path / "photos"), None, 8, 0)
    assert list(splits) == ["train", "val"]
    (tmp_path / "photos" / "train" / "cat" / "broken.png").write_bytes(b"no picture")
    watched = []
    store_user_splits(splits, tmp_path / "run" / "data", False, print, lambda *read: watched.append(read))
    assert watched[-1] == ("reading val", 2, 2)
    assert "broken.png: cannot be read" in capsys.readouterr().out
    assert all(given.is_in(tmp_path / "run" / "data" / split) for split, given in splits.items())
    assert data_set_name(tmp_path / "run" / "data") == str(tmp_path / "run" / "data")
    assert data_set_name(tmp_path / "photos") is None
    assert data_set_name("shapes") == "shapes"
    Image.fromarray(levels).save(tmp_path / "photos" / "train" / "cat" / "2.png")
    assert not UserSplit(tmp_path / "photos", "train", 8).is_in(tmp_path / "run" / "data" / "train")
    with pytest.raises(ValueError, match="neither the name of a data set"):
        data_set_name("nosuch")
