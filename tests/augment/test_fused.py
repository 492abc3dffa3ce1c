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
NCHW, NHWC = torch.contiguous_format, torch.channels_last

# Boxes (top, left, height, width) of a 40 × 24 image, for views of 16 px: single pixels in the corners, all of it,
# slivers that are enlarged along one axis and shrunk along the other, and two that hang over the border.
BOXES = [(0, 0, 1, 1), (39, 23, 1, 1), (0, 0, 40, 24), (20, 0, 1, 24), (0, 23, 40, 1), (3, 5, 31, 17), (1, 2, 16, 16),
         (0, 0, 32, 8), (-2, 3, 9, 9), (30, 15, 14, 12)]  # fmt: skip


def pictures(n, input_shape, generator):
    """Smooth colors with noise; every third picture is gray."""
    coarse = torch.rand(n, 3, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, input_shape, mode="bilinear")
    images = smooth + 0.2 * torch.randn(n, 3, *input_shape, generator=generator)
    images[::3] = images[::3].mean(1, keepdim=True)
    return (images * 255).clamp(0, 255).to(torch.uint8)


def cases():
    """name → (images, parameters, memory format), few and small, because the interpreter is slow."""
    g = torch.Generator().manual_seed(0)

    def draw(policy, n=4, input_shape=(16, 16), **changed):
        policy = dataclasses.replace(policy, **changed)
        return pictures(n, input_shape, g), policy.sample(n, input_shape, g), NCHW

    small = EVERYTHING.resized(16)
    yield "everything", draw(EVERYTHING, 6, (32, 32))
    for family in ("crop", "flip", "color", "gray", "blur", "solarize"):
        yield family, draw(small.only(family), identity=0.0, **{family: 1.0})
    for size, kernel_size, input_shape in ((24, 1, (40, 24)), (28, 5, (40, 24)), (8, 15, (9, 8)), (1, 1, (3, 4))):
        yield (
            f"{size} px, blur on {kernel_size}",
            draw(small, 3, input_shape, size=size, blur=1.0, kernel_size=kernel_size),
        )
    yield "96 px to 32", draw(EVERYTHING, 2, (96, 96), scale=(0.5, 1.0))
    yield "identity", (pictures(2, (16, 16), g), identity(2, (16, 16), 16), NCHW)

    top, left, height, width = torch.tensor(BOXES).T
    images, p, _ = draw(small, len(BOXES), (40, 24))
    yield "boxes", (images, dataclasses.replace(p, top=top, left=left, height=height, width=width), NCHW)
    orders = torch.tensor(list(itertools.permutations(range(4))))
    images, p, _ = draw(small.only("color"), 24, (8, 8), size=8, color=1.0, identity=0.0)
    yield "orders", (images, dataclasses.replace(p, order=orders), NCHW)

    images, p, _ = draw(small, 3, (16, 16))
    yield "float", (images / 255, p, NCHW)
    yield "doubles", (images, dataclasses.replace(p, hue=p.hue.double(), contrast=p.contrast.double()), NCHW)
    yield "strided", (images.to(memory_format=NHWC), dataclasses.replace(p, order=p.order.mT.contiguous().mT), NCHW)
    yield "channels last", (images, p, NHWC)

    # In strips, of which the last is not full; contrast at every place among the steps of the jitter.
    images, p, _ = draw(EVERYTHING.resized(66), 4, (70, 66), color=1.0, kernel_size=5)
    p = dataclasses.replace(p, order=orders[[3, 8, 14, 2]], blur=torch.tensor([1, 0, 1, 0]) > 0)
    yield "66 px", (images, p, NCHW)
    yield "66 px, channels last", (images[:2], p[:2], NHWC)
    yield "130 px", draw(EVERYTHING.resized(130), 1, (99, 150), blur=1.0, color=1.0, kernel_size=3)


CASES = dict(cases())
PROGRAM = """
    import sys, torch
    from care.augment import fused
    from care.augment.fused import fused_augment
    from test_fused import CASES, moved

    if sys.argv[1] == "cpu":
        fused.PIXELS_OF_A_STRIP *= 4  # the interpreter takes as long for a short strip

    def doubled(images, p, memory_format):
        return 2 * fused_augment(images, p, memory_format)

    cases = {name: moved(case, sys.argv[1]) for name, case in CASES.items()}
    views = {name: fused_augment(*case) for name, case in cases.items()}
    compiled = torch.compile(doubled, fullgraph=True, backend="aot_eager" if sys.argv[1] == "cpu" else "inductor")
    views["compiled"] = compiled(*cases["channels last"])
    torch.save({name: view.cpu() for name, view in views.items()}, sys.argv[2])
"""


def moved(case, device):
    images, p, memory_format = case
    return images.to(device), p.to(device), memory_format


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


def assert_same_views(views, images, p):
    """Equal, but for pixels so close to the threshold of solarizing that rounding decides whether they are inverted.

    A position in a picture is rounded to 2⁻²⁴ of the picture, by either way of computing it.
    """
    expected = augment_images(images, p)
    before = augment_images(images, dataclasses.replace(p, solarize=torch.zeros_like(p.solarize)))
    rounding = p.solarize[:, None, None, None] & ((before - p.threshold).abs() < 1e-5)
    assert rounding.float().mean() < 0.01
    views = torch.where(rounding, expected, views)
    torch.testing.assert_close(views, expected, atol=max(2e-5, 2**-21 * max(p.input_shape)), rtol=0, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_plain_path(name, views):
    images, p, memory_format = CASES[name]
    assert views[name].dtype == torch.float32
    assert views[name].is_contiguous(memory_format=memory_format)
    assert_same_views(views[name], images, p)


def test_the_identity_returns_the_image(views):
    torch.testing.assert_close(views["identity"], CASES["identity"][0] / 255, atol=1e-7, rtol=0)


def test_compiles_without_graph_breaks(views):
    assert views["compiled"].stride() == views["channels last"].stride()
    assert torch.equal(views["compiled"], 2 * views["channels last"])


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
    ("images", "size", "message"),
    [
        (torch.zeros(4, 1, 32, 32), 32, r"images \[n, 3, 32, 32\], got \[4, 1, 32, 32\]"),
        (torch.zeros(4, 3, 32, 31), 32, r"images \[n, 3, 32, 32\], got \[4, 3, 32, 31\]"),
        (torch.zeros(3, 3, 32, 32), 32, "3 images but 4 augmentations"),
        (torch.zeros(4, 3, 32, 32), 513, "too large to fuse"),
        (torch.zeros(4, 3, 32, 32), 32, "need a GPU"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_fused_is_refused(images, size, message, generator):
    p = dataclasses.replace(EVERYTHING, size=size).sample(4, (32, 32), generator)
    with pytest.raises(ValueError, match=message):
        fused_augment(images, p)


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


def on_gpu(policy, input_shape, n=2000) -> tuple[torch.Tensor, ImageParameters]:
    pytest.importorskip("triton")
    generator = torch.Generator("cuda").manual_seed(0)
    images = pictures(n, input_shape, torch.Generator().manual_seed(0)).cuda()
    return images, policy.sample(n, input_shape, generator)


@pytest.mark.gpu
@pytest.mark.parametrize("name", POLICIES)
def test_equals_the_plain_path_on_a_gpu(name):
    images, p = on_gpu(*POLICIES[name], n=2000 if POLICIES[name][0].size <= 64 else 300)
    assert can_fuse(images, p)
    assert_same_views(fused_augment(images, p), images, p)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [32, 96])
def test_does_not_wait(size, no_waiting):
    images, p = on_gpu(EVERYTHING.resized(size), (size, size), n=64)
    with no_waiting():
        views = fused_augment(images, p, NHWC)
    assert views.is_cuda


@pytest.mark.gpu
@pytest.mark.parametrize("size", [32, 96])
def test_replays_in_a_cuda_graph(size):
    policy, input_shape = EVERYTHING.resized(size), (size, size)
    images, p = on_gpu(policy, input_shape, n=256)
    graph = torch.cuda.CUDAGraph()
    fused_augment(images, p)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        views = fused_augment(images, p)
    changed = policy.sample(256, input_shape, torch.Generator("cuda").manual_seed(1))
    for (_, old), (_, new) in zip(p._tensors(), changed._tensors(), strict=True):
        old.copy_(new)
    images.copy_(images.flip(0))
    graph.replay()
    assert_same_views(views, images, changed)
