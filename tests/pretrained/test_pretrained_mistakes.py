"""Models that cannot be read, and outputs that are no embeddings: reported in a sentence."""

import sys
import warnings

import pytest
import timm
import torch
from safetensors.torch import save_file

from care.pretrained import load_pretrained
from care.train import prepare, train
from pretrained.made import onnx_means
from train.small import small_config, small_data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    train(prepare(small_config(small_data(folder / "data"), epochs=1), folder / "mine"))
    return folder / "mine"


@pytest.fixture
def images(generator):
    return torch.rand(5, 3, 32, 32, generator=generator)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, r"gives \[5, 3, 32, 32\] for 5 inputs: export its pooled features"),
        (lambda x: x.mean(3), r"gives \[5, 3, 32\] for 5 inputs"),
        (lambda x: x.mean((2, 3)).flatten()[None], r"gives \[1, 15\] for 5 inputs"),
        (lambda x: (x.mean((2, 3)), x.mean()), "gives tuple for 5 inputs"),
        (lambda x: x.mean((2, 3)) / 0, "not finite"),
    ],
)
def test_outputs_that_are_no_vectors(tmp_path, images, function, message):
    with warnings.catch_warnings(action="ignore"):
        torch.jit.trace(function, images).save(str(tmp_path / "f.pt"))
    model = load_pretrained(str(tmp_path / "f.pt"))
    for _ in range(2):  # not only the first time
        with pytest.raises(ValueError, match=message):
            model.embed(images)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("what", "settings", "message"),
    [
        ("nowhere", {}, "nowhere does not exist; a model is a run folder, timm/NAME"),
        ("{tmp}", {}, "is not the folder of a run"),
        ("{tmp}/notes.txt", {}, "notes.txt cannot be read; a model is"),
        ("{tmp}/pickled.pt", {}, "pickled checkpoints are not read"),
        ("{tmp}/w.pth", {}, "w.pth is not a .safetensors file; pickled checkpoints are not read, because they can run"),
        ("timm/test_resnet@{tmp}/w.bin", {}, "w.bin .* pickled checkpoints are not read, because they can run code: "),
        ("timm/test_resnet@{tmp}/w.ckpt", {}, "w.ckpt .* pickled checkpoints are not read"),
        ("{tmp}/old.pt", {}, "pickled checkpoints are not read"),
        ("{tmp}/broken.onnx", {}, "cannot be run by onnxruntime: "),
        ("{tmp}/two.onnx", {}, "one output"),
        ("{tmp}/tall.onnx", {}, "square images"),
        ("{tmp}/gray.onnx", {}, "square images"),
        ("{tmp}/theirs.safetensors", {}, "given as timm/NAME@"),
        ("{run}", {"mean": (0, 0, 0), "std": (1, 1, 1)}, "leave out mean and std"),
        ("timm/resnot18", {}, "no model 'resnot18'; did you mean resnet18"),
        ("timm/dinov2", {}, "did you mean .*dinov2"),
        ("timm/resnot18@random", {}, "did you mean resnet18"),
        ("timm/test_resnet.nope", {}, "no weights 'test_resnet.nope'; choose one of test_resnet.r160_in1k"),
        ("timm/coatnet_0_224", {}, "timm/coatnet_0_224@random has random ones"),
        ("timm/test_resnet@nowhere.safetensors", {}, "nowhere.safetensors does not exist: check the path"),
        ("timm/test_resnet@{tmp}/pickled.pt", {}, "is not a .safetensors file"),
        ("timm/test_resnet@{tmp}/broken.safetensors", {}, "is damaged"),
        (
            "timm/test_resnet@{tmp}/theirs.safetensors",
            {},
            "does not fit test_resnet, 91 weights differ: conv1.0.weight .* is missing; .* and 88 more",
        ),
        ("timm/test_resnet@{tmp}/more.safetensors", {}, "1 weight differs: mystery is not in the model"),
        (
            "timm/test_resnet@{tmp}/shape.safetensors",
            {},
            r"1 weight differs: bn1.weight should be \[\d+\] but is \[1\]",
        ),
        ("timm/test_resnet@random", {"mean": (0, 0, 0)}, "three numbers each"),
        ("timm/test_resnet@random", {"mean": (0, 0, 0), "std": (1, 1)}, "three numbers each"),
        ("timm/test_resnet@random", {"mean": (0, 0, 0), "std": (1, 1, 0)}, "positive"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(run, mistakes, what, settings, message):
    with pytest.raises(ValueError, match=message):
        load_pretrained(what.format(tmp=mistakes, run=run), **settings)


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    """A folder of files that are not what they should be."""
    folder = tmp_path_factory.mktemp("mistakes")
    torch.save({"w": torch.zeros(2)}, folder / "pickled.pt")
    torch.save({"w": torch.zeros(2)}, folder / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("w.pth", "w.bin", "w.ckpt"):
        (folder / name).write_bytes((folder / "pickled.pt").read_bytes())
    for name in ("notes.txt", "broken.onnx", "broken.safetensors"):
        (folder / name).write_text("nothing of the kind")
    onnx_means(folder / "two.onnx", (1, 3, 8, 8), outputs=2)
    onnx_means(folder / "tall.onnx", (1, 3, 16, 8))
    onnx_means(folder / "gray.onnx", (1, 1, 8, 8))
    save_file({"w": torch.zeros(2)}, folder / "theirs.safetensors")
    state = timm.create_model("test_resnet", num_classes=0).state_dict()
    save_file({**state, "mystery": torch.zeros(2)}, folder / "more.safetensors")
    save_file({**state, "bn1.weight": torch.zeros(1)}, folder / "shape.safetensors")
    return folder


def test_onnx_without_onnxruntime(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "m.onnx").touch()
    with pytest.raises(ValueError, match=r"needs onnxruntime: install care-ssl\[onnx\]"):
        load_pretrained(str(tmp_path / "m.onnx"))


def test_onnx_of_another_size_is_refused(tmp_path, images):
    model = load_pretrained(onnx_means(tmp_path / "m.onnx", (5, 3, 32, 32)))
    with pytest.raises(ValueError, match="takes images of 32 pixels"):
        model.embed(images[..., :16, :16])
