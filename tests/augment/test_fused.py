"""`fused_augment` against the plain path: on the CPU in Triton's interpreter, on a GPU as compiled."""

import dataclasses
import itertools
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from care.augment import ImageParameters, ImagePolicy, byol_second, cifar10, identity, mocov2, shapes, simclr, stl10
from care.augment.apply import augment_images
from care.augment.fused import TRITON_INSTALLED, can_fuse, fused_augment

EVERYTHING = ImagePolicy(size=32, solarize=0.5, identity=0.1)
MEAN, STD = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.25, 0.3])
NHWC = torch.channels_last

# Boxes (top, left, height, width) of a 40 × 24 image, for views of 16 px: single pixels in the corners, all of it,
# slivers that are enlarged along one axis and shrunk along the other, and two that hang over the border.
BOXES = [(0, 0, 1, 1), (39, 23, 1, 1), (0, 0, 40, 24), (20, 0, 1, 24), (0, 23, 40, 1), (3, 5, 31, 17), (1, 2, 16, 16),
         (0, 0, 32, 8), (-2, 3, 9, 9), (30, 15, 14, 12)]  # fmt: skip


def pictures(n, source, generator):
    """Smooth colors with noise; every third picture is gray."""
    coarse = torch.rand(n, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, source, mode="bilinear")
    images = smooth + 0.2 * torch.randn(n, 3, *source, generator=generator)
    images[::3] = images[::3].mean(1, keepdim=True)
    return (images * 255).clamp(0, 255).to(torch.uint8)


def cases():
    """name → (images, parameters, further arguments), few and small, because the interpreter is slow."""
    g = torch.Generator().manual_seed(0)

    def draw(policy, n=4, source=(16, 16), **changed):
        policy = dataclasses.replace(policy, **changed)
        return pictures(n, source, g), policy.sample(n, source, g), {}

    small = EVERYTHING.resized(16)
    yield "everything", draw(EVERYTHING, 6, (32, 32))
    for family in ("crop", "flip", "color", "gray", "blur", "solarize"):
        yield family, draw(small.only(family), identity=0.0, **{family: 1.0})
    for size, kernel_size, source in ((24, 1, (40, 24)), (28, 5, (40, 24)), (8, 15, (9, 8)), (1, 1, (3, 4))):
        yield f"{size} px, blur on {kernel_size}", draw(small, 3, source, size=size, blur=1.0, kernel_size=kernel_size)
    yield "96 px to 32", draw(EVERYTHING, 2, (96, 96), scale=(0.5, 1.0))
    yield "identity", (pictures(2, (16, 16), g), identity(2, (16, 16), 16), {})

    top, left, height, width = torch.tensor(BOXES).T
    images, p, _ = draw(small, len(BOXES), (40, 24))
    yield "boxes", (images, dataclasses.replace(p, top=top, left=left, height=height, width=width), {})
    orders = torch.tensor(list(itertools.permutations(range(4))))
    images, p, _ = draw(small.only("color"), 24, (8, 8), size=8, color=1.0, identity=0.0)
    yield "orders", (images, dataclasses.replace(p, order=orders), {})

    images, p, _ = draw(small, 3, (16, 16))
    yield "float", (images / 255, p, {})
    yield "doubles", (images, dataclasses.replace(p, hue=p.hue.double(), contrast=p.contrast.double()), {})
    yield "strided", (images.to(memory_format=NHWC), dataclasses.replace(p, order=p.order.mT.contiguous().mT), {})
    yield "normalized", (images, p, {"memory_format": NHWC, "mean": MEAN, "std": STD})
    yield "bfloat16", (images, p, {"dtype": torch.bfloat16, "memory_format": NHWC, "mean": MEAN, "std": STD})
    yield "indices", (pictures(7, (16, 16), g), p, {"indices": torch.tensor([6, 0, 6])})
    yield "int32 indices", (pictures(7, (16, 16), g), p, {"indices": torch.tensor([3, 5, 1], dtype=torch.int32)})
    yield "missing", (images, p, {"indices": torch.tensor([-1, 1, 3])})

    # In strips, of which the last is not full; contrast at every place among the steps of the jitter.
    images, p, _ = draw(EVERYTHING.resized(66), 4, (70, 66), color=1.0, kernel_size=5)
    yield (
        "66 px",
        (images, dataclasses.replace(p, order=orders[[3, 8, 14, 2]], blur=torch.tensor([1, 0, 1, 0]) > 0), {}),
    )
    yield "130 px", draw(EVERYTHING.resized(130), 1, (99, 150), blur=1.0, color=1.0, kernel_size=3)
    arguments = {"indices": torch.tensor([-1, 1]), "memory_format": NHWC, "mean": MEAN, "std": STD}
    yield "66 px, missing", (images[:2], p[:2], arguments)


CASES = dict(cases())
COMPARED = [name for name in CASES if name not in ("bfloat16", "missing", "66 px, missing")]
PROGRAM = """
    import sys, torch
    from care.augment import fused
    from care.augment.fused import fused_augment
    from test_fused import CASES, moved

    if sys.argv[1] == "cpu":
        fused.PIXELS_OF_A_STRIP *= 4  # the interpreter takes as long for a short strip

    def doubled(images, p, arguments):
        return 2 * fused_augment(images, p, **arguments)

    cases = {name: moved(case, sys.argv[1]) for name, case in CASES.items()}
    views = {name: fused_augment(images, p, **arguments) for name, (images, p, arguments) in cases.items()}
    compiled = torch.compile(doubled, fullgraph=True, backend="aot_eager" if sys.argv[1] == "cpu" else "inductor")
    views["compiled"] = compiled(*cases["bfloat16"])
    torch.save({name: view.cpu() for name, view in views.items()}, sys.argv[2])
"""


def moved(case, device):
    images, p, arguments = case
    arguments = {key: t.to(device) if isinstance(t, torch.Tensor) else t for key, t in arguments.items()}
    return images.to(device), p.to(device), arguments


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def views(request, tmp_path_factory):
    """The views of all cases: on the CPU by Triton's interpreter, on a GPU by the compiled kernel.

    In a process of its own: Triton reads once, when imported, whether to interpret, and the shape checks of the test
    suite cannot be compiled.
    """
    if not TRITON_INSTALLED:
        pytest.skip("needs Triton")
    file = tmp_path_factory.mktemp("fused") / "views.pt"
    environment = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"} if request.param == "cpu" else {}
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), request.param, file]
    subprocess.run(command, check=True, env={**os.environ, **environment})
    return torch.load(file)


def expected_views(images, p, indices=None, mean=None, std=None, **_):
    views = augment_images(images if indices is None else images[indices.long()], p)
    return views if mean is None else (views - mean[:, None, None]) / std[:, None, None]


def assert_same_views(views, images, p, atol=None, **arguments):
    """Equal, but for pixels so close to the threshold of solarizing that rounding decides whether they are inverted.

    A position in a picture is rounded to 2⁻²⁴ of the picture, by either way of computing it.
    """
    atol = max(2e-5, 2**-21 * max(p.source)) if atol is None else atol
    expected = expected_views(images, p, **arguments)
    indices = arguments.get("indices")
    before = expected_views(images, dataclasses.replace(p, solarize=torch.zeros_like(p.solarize)), indices)
    rounding = p.solarize[:, None, None, None] & ((before - p.threshold).abs() < 1e-5)
    assert rounding.float().mean() < 0.01
    views = torch.where(rounding, expected, views.float())
    torch.testing.assert_close(views, expected, atol=atol, rtol=0, equal_nan=True)


@pytest.mark.parametrize("name", COMPARED)
def test_equals_the_plain_path(name, views):
    images, p, arguments = CASES[name]
    assert views[name].dtype == torch.float32
    assert views[name].is_contiguous(memory_format=arguments.get("memory_format", torch.contiguous_format))
    assert_same_views(views[name], images, p, **arguments)


def test_the_identity_returns_the_image(views):
    torch.testing.assert_close(views["identity"], CASES["identity"][0] / 255, atol=1e-7, rtol=0)


def test_bfloat16(views):
    images, p, arguments = CASES["bfloat16"]
    assert views["bfloat16"].dtype == torch.bfloat16
    assert views["bfloat16"].is_contiguous(memory_format=NHWC)
    largest = float(views["bfloat16"].abs().max())
    # The interpreter truncates, which is twice as coarse as a GPU's rounding.
    assert_same_views(views["bfloat16"], images, p, atol=2**-7 * largest, **arguments)


@pytest.mark.parametrize("name", ["missing", "66 px, missing"])
def test_an_image_that_does_not_exist_gives_nan(name, views):
    images, p, arguments = CASES[name]
    there = {key: value for key, value in arguments.items() if key != "indices"}
    assert views[name][::2].isnan().all()
    assert_same_views(views[name][1:2], images[1:2], p[1:2], **there)


def test_compiles_without_graph_breaks(views):
    assert views["compiled"].stride() == views["bfloat16"].stride()
    assert torch.equal(views["compiled"], 2 * views["bfloat16"])


@pytest.mark.parametrize(
    ("fits", "images", "policy"),
    [
        (TRITON_INSTALLED, {}, {}),
        (TRITON_INSTALLED, {"dtype": torch.float32}, {}),
        (TRITON_INSTALLED, {"size": (4, 3, 96, 64)}, {"size": 64}),
        (False, {"device": "cpu"}, {}),
        (False, {"dtype": torch.float64}, {}),
        (False, {"dtype": torch.float32, "requires_grad": True}, {}),
        (False, {"size": (4, 1, 32, 32)}, {}),
        (False, {"size": (4, 3, 32, 97)}, {}),
        (TRITON_INSTALLED, {"size": (4, 3, 256, 320)}, {"size": 224}),
        (False, {"size": (4, 3, 256, 673)}, {"size": 224}),
        (False, {}, {"size": 513}),
    ],
)
def test_what_can_be_fused(fits, images, policy, generator):
    with FakeTensorMode(allow_non_fake_inputs=True):
        images = torch.empty(**{"size": (4, 3, 32, 32), "dtype": torch.uint8, "device": "cuda", **images})
    p = dataclasses.replace(EVERYTHING, **policy).sample(4, tuple(images.shape[2:]), generator)
    assert can_fuse(images, p) == fits


def test_parameters_with_a_gradient_are_not_fused(generator):
    p = EVERYTHING.sample(4, (32, 32), generator)
    p = dataclasses.replace(p, brightness=p.brightness.requires_grad_())
    with FakeTensorMode():
        images = torch.empty(4, 3, 32, 32, device="cuda")
    assert not can_fuse(images, p)
    with torch.no_grad():
        assert can_fuse(images, p) == TRITON_INSTALLED


@pytest.mark.parametrize(
    ("images", "arguments", "size", "message"),
    [
        (torch.zeros(4, 1, 32, 32), {}, 32, r"images \[n, 3, 32, 32\], got \[4, 1, 32, 32\]"),
        (torch.zeros(4, 3, 32, 31), {}, 32, r"images \[n, 3, 32, 32\], got \[4, 3, 32, 31\]"),
        (torch.zeros(3, 3, 32, 32), {}, 32, "3 images asked for but 4 augmentations"),
        (torch.zeros(4, 3, 32, 32), {"indices": torch.arange(3)}, 32, "3 images asked for but 4 augmentations"),
        (torch.zeros(4, 3, 32, 32), {}, 513, "too large to fuse"),
        (torch.zeros(4, 3, 32, 32), {"mean": MEAN}, 32, "both or neither"),
        (torch.zeros(4, 3, 32, 32), {}, 32, "need a GPU"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_fused_is_refused(images, arguments, size, message, generator):
    p = dataclasses.replace(EVERYTHING, size=size).sample(4, (32, 32), generator)
    with pytest.raises(ValueError, match=message):
        fused_augment(images, p, **arguments)


# What follows needs a GPU.

POLICIES = {
    "cifar10": (cifar10(), (32, 32)),
    "stl10": (stl10(), (96, 96)),
    "shapes": (shapes(), (32, 32)),
    "simclr": (simclr(64, strength=1.0), (64, 64)),
    "mocov2": (mocov2(48), (64, 80)),
    "byol": (byol_second(32), (40, 24)),
    "everything": (EVERYTHING, (32, 32)),
    "imagenet": (mocov2(224), (256, 256)),
    "photos": (dataclasses.replace(byol_second(160), identity=0.1), (180, 300)),
}


def on_gpu(policy, source, n=2000) -> tuple[torch.Tensor, ImageParameters]:
    pytest.importorskip("triton")
    generator = torch.Generator("cuda").manual_seed(0)
    images = pictures(n, source, torch.Generator().manual_seed(0)).cuda()
    return images, policy.sample(n, source, generator)


@pytest.mark.gpu
@pytest.mark.parametrize("name", POLICIES)
def test_equals_the_plain_path_on_a_gpu(name):
    images, p = on_gpu(*POLICIES[name], n=2000 if POLICIES[name][0].size <= 64 else 300)
    assert can_fuse(images, p)
    assert_same_views(fused_augment(images, p), images, p)


@pytest.mark.gpu
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, NHWC], ids=["nchw", "nhwc"])
def test_bfloat16_is_the_rounded_float32_on_a_gpu(memory_format):
    images, p = on_gpu(*POLICIES["cifar10"])
    arguments = {"memory_format": memory_format, "mean": MEAN.cuda(), "std": STD.cuda()}
    exact, rounded = fused_augment(images, p, **arguments), fused_augment(images, p, dtype=torch.bfloat16, **arguments)
    assert exact.stride() == rounded.stride()
    torch.testing.assert_close(rounded.float(), exact, rtol=2**-8, atol=1e-5)  # half a unit in the last of 8 bits


@pytest.mark.gpu
@pytest.mark.parametrize("size", [32, 96])
def test_does_not_wait(size, no_waiting):
    images, p = on_gpu(EVERYTHING.resized(size), (size, size), n=64)
    indices, mean, std = torch.arange(64, device="cuda"), MEAN.cuda(), STD.cuda()
    with no_waiting():
        views = fused_augment(images, p, indices, torch.bfloat16, NHWC, mean, std)
    assert views.is_cuda


@pytest.mark.gpu
@pytest.mark.parametrize("size", [32, 96])
def test_replays_in_a_cuda_graph(size):
    policy, source = EVERYTHING.resized(size), (size, size)
    images, p = on_gpu(policy, source, n=256)
    indices, graph = torch.arange(256, device="cuda"), torch.cuda.CUDAGraph()
    fused_augment(images, p, indices)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        views = fused_augment(images, p, indices)
    changed = policy.sample(256, source, torch.Generator("cuda").manual_seed(1))
    for (_, old), (_, new) in zip(p._tensors(), changed._tensors(), strict=True):
        old.copy_(new)
    indices.copy_(indices.flip(0))
    graph.replay()
    assert_same_views(views, images, changed, indices=indices)
