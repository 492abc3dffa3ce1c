"""JPEGs that a GPU decodes: the pictures that the CPU decodes, in batches and in training."""

import numpy as np
import pytest
import torch
from PIL import Image

from care.data import batches
from care.data.readers.decoding import ORIENTATION
from care.data.streamed.opening import open_pictures
from care.whole_pictures import squares_and_aspects
from gpu.commands import SMALL, run

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

TURNED = {3: 3, 4: 6, 5: 8, 6: 5}  # the EXIF orientation of some pictures


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory):
    """48 pictures of several sizes: some turned, some progressive, one gray, one CMYK, one PNG, one cut off."""
    folder = tmp_path_factory.mktemp("jpegs")
    for i in range(48):
        coarse = np.random.default_rng(i).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        picture = Image.fromarray(coarse).resize((300 + 8 * i, 200 + 40 * (i % 3)), Image.Resampling.BICUBIC)
        exif = Image.Exif()
        exif[ORIENTATION] = TURNED.get(i, 1)
        kind = "png" if i == 9 else "jpg"
        picture.convert({7: "L", 8: "CMYK"}.get(i, "RGB")).save(
            folder / f"{i:02d}.{kind}", exif=exif, quality=95, **({"progressive": True} if i % 5 == 0 else {})
        )
    data = (folder / "20.jpg").read_bytes()
    (folder / "20.jpg").write_bytes(data[: len(data) // 2])
    return folder


@pytest.mark.parametrize("whole", [True, False])
def test_pictures_are_those_of_the_cpu(whole, gpu, jpegs):
    """To a few gray levels: decoders differ in how they enlarge the colors, and the CPU decodes at reduced scale."""
    order = torch.arange(48).split(16)
    found = {}
    for decoder in ("cpu", "gpu"):
        samples = open_pictures(jpegs, "train", 64, decoder=decoder)
        with pytest.warns(UserWarning, match=r"20\.jpg cannot be read"):
            batch = torch.cat(list(batches(samples, order, gpu, whole=whole)))
        assert batch.device.type == gpu
        found[decoder] = squares_and_aspects(batch.cpu())
    difference = (found["gpu"][0].int() - found["cpu"][0].int()).abs().float().mean((1, 2, 3))
    assert difference.max() < 4, difference
    assert difference.mean() < 1.5
    assert not whole or torch.equal(found["gpu"][1], found["cpu"][1])


def test_many_batches_are_right_while_the_gpu_is_busy(gpu, jpegs):
    """What is decoded on a stream of its own is not overwritten before it was used."""
    samples = open_pictures(jpegs, "train", 64, decoder="gpu")
    rows = torch.arange(48)
    with pytest.warns(UserWarning, match=r"20\.jpg cannot be read"):
        (right,) = batches(samples, [rows], gpu, whole=True)
    order = [rows[torch.randperm(48, generator=torch.Generator().manual_seed(i))[:16]] for i in range(40)]
    busy = torch.randn(1024, 1024, device=gpu)
    for some, batch in zip(order, batches(samples, order, gpu, whole=True), strict=True):
        for _ in range(8):
            busy = (busy @ busy).clamp(-1, 1)
        difference = (batch.int() - right[some.to(gpu)].int()).abs().float().mean()
        assert difference < 0.05  # one group or another: sums of halves may round differently


def test_training_on_pictures_that_the_gpu_decodes(gpu, jpegs, tmp_path):
    """Through CUDA graphs, which are captured while the thread decodes."""
    if gpu == "cpu":
        pytest.skip("needs nvJPEG")
    with pytest.warns(UserWarning, match=r"20\.jpg cannot be read"):
        run(gpu, "train", "--data", f"{jpegs}/", "--decoder", "gpu", "--validation", 20, *SMALL, "--batch-size", 8,
            "--epochs", 6, "--out", tmp_path / "run")  # fmt: skip
    assert (tmp_path / "run" / "model.safetensors").exists()
