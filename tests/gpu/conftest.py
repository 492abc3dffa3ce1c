"""Where the commands run, and what they run on: shapes, and a store of photos."""

import pytest
import torch
from PIL import Image

from gpu.commands import invoke


@pytest.fixture(scope="session")
def gpu(request):
    """What --device is given: the GPU, or with --on-cpu the CPU."""
    return "cpu" if request.config.option.on_cpu else "cuda"


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """The folder of a data set that `care data prepare` made: 200 JPEGs of several shapes, in two classes."""
    folder = tmp_path_factory.mktemp("photos")
    generator = torch.Generator().manual_seed(0)
    for i in range(200):
        part, color = "train" if i < 160 else "val", ("red", "blue")[i % 2]
        coarse = torch.rand(3, 4, 4, generator=generator)
        coarse[0 if color == "red" else 2] += 1
        pixels = torch.nn.functional.interpolate(coarse[None], (72 + i % 24, 96), mode="bilinear")[0]
        file = folder / "files" / part / color / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((127 * pixels).byte().permute(1, 2, 0).contiguous().numpy()).save(file)
    invoke("data", "prepare", "photos", "--from", folder / "files", "--pixels", 72, "--root", folder / "stores")
    return folder / "stores" / "photos"
