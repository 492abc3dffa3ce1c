"""Losses, augmentations, rotations and models: a GPU computes what a CPU does, and the host does not wait for it."""

import threading

import pytest
import torch

from care import augment, geometry, losses
from care.geometry.kabsch import kabsch
from care.pretrained import load_pretrained
from care.train.graph import CALLS_BEFORE_CAPTURE, Graph
from care.train.optimizers import build_optimizer
from cli.world import make_run
from train.small import small_data

pytestmark = pytest.mark.gpu


def steering(z):
    """Coordinates of augmentations and generators that are made of the same numbers."""
    generators = geometry.skew(0.1 * z[3, :48, :16].reshape(3, 16, 16))
    return losses.steering(z[0], z[1], z[2, :32, :3], z[2, :32, 3:6], generators)


LOSSES = {
    "info_nce": (lambda z: losses.info_nce(z[0], z[1])),
    "info_nce tiled": (lambda z: losses.info_nce(z[0], z[1], tile=100)),
    "info_nce of four views": (lambda z: losses.info_nce(*z)),
    "dcl": (lambda z: losses.dcl(*z)),
    "hard_negatives": (lambda z: losses.hard_negatives(*z)),
    "mocov3": (lambda z: losses.mocov3(*z)),
    "queue_info_nce": (lambda z: losses.queue_info_nce(z[0], z[1], z[2])),
    "equivariance": (lambda z: losses.equivariance(z[0], z[1], chunks=16)),
    "minkowski": (lambda z: losses.equivariance(z[0], z[1], 16, geometry.Minkowski())),
    "steering": steering,
    "invariance": (lambda z: losses.invariance(z[0], z[1])),
    "uniformity": (lambda z: losses.uniformity(z[0], z[1])),
    "barlow_twins": (lambda z: losses.barlow_twins(z[0], z[1])),
    "vicreg": (lambda z: losses.vicreg(z[0], z[1])),
    "byol": (lambda z: losses.byol(*z)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_do_not_wait_and_equal_the_cpu(name, generator, no_waiting):
    z = torch.randn(4, 256, 128, generator=generator)
    on_gpu = z.cuda().requires_grad_()
    on_cpu = z.double().requires_grad_()
    with no_waiting():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = LOSSES[name](on_gpu)
        loss.backward()
    expected = LOSSES[name](on_cpu)
    expected.backward()
    torch.testing.assert_close(loss.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    assert (on_gpu.grad.cpu().double() - on_cpu.grad).norm() <= 1e-4 * on_cpu.grad.norm()


def test_drawing_and_applying_do_not_wait(no_waiting):
    generator = torch.Generator("cuda").manual_seed(0)
    images = torch.randint(256, (64, 3, 32, 32), dtype=torch.uint8, device="cuda", generator=generator)
    policy = augment.ImagePolicy(size=32, solarize=0.2, identity=0.1)
    with no_waiting():
        p = policy.sample(64, (32, 32), generator)
        shared = policy.sample(4, (32, 32), generator).repeat(16)
        views = augment.apply(images, p), augment.apply(images, shared)
    assert all(view.is_cuda for view in views)


def test_rotations_on_the_gpu_equal_the_cpu(generator):
    F = geometry.Euclidean().embed(torch.randn(3, 500, 64, generator=generator))
    F_a = geometry.Euclidean().embed(F + 0.1 * torch.randn(3, 500, 64, generator=generator))
    for measure in (geometry.wahba_error, geometry.heldout_ratio, geometry.relative_equivariance, geometry.gram_error):
        torch.testing.assert_close(measure(F.cuda(), F_a.cuda()).cpu(), measure(F, F_a), rtol=1e-3, atol=1e-6)
    boosted = geometry.Minkowski().embed(F[0].double())
    boost = geometry.Minkowski().random_element(64, generator, 0.5)
    solution = geometry.solve_wahba(boosted.cuda(), (boosted @ boost.T).cuda(), "Lorentz")
    torch.testing.assert_close(solution.cpu(), boost, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize(("n", "d"), [(2000, 512), (300, 512), (40, 3)])
def test_the_nearest_rotation_is_that_of_a_cpu(n, d, special, generator):
    F = torch.randn(n, d, generator=generator, dtype=torch.float64)
    M = (F + 0.3 * torch.randn(n, d, generator=generator, dtype=torch.float64)).T @ F
    close = {"atol": 1e-3 if n < d else 1e-9, "rtol": 0}
    torch.testing.assert_close(kabsch(M.cuda(), special).cpu(), kabsch(M, special), **close)


@pytest.mark.parametrize("what", ["{run}", "timm/test_resnet@random", "{tmp}/means.onnx"])
def test_models_embed_as_on_a_cpu(what, generator, tmp_path):
    if what.endswith(".onnx"):
        pytest.importorskip("onnx")
        from pretrained.made import onnx_means

        onnx_means(tmp_path / "means.onnx", (2, 3, 32, 32))
    run = make_run(tmp_path / "run", small_data(tmp_path / "data"))
    model = load_pretrained(what.format(run=run, tmp=tmp_path))
    images = torch.rand(5, 3, 32, 32, generator=generator)
    expected = model.embed(images)
    for output, vectors in model.to("cuda").embed(images.cuda()).items():
        assert vectors.is_cuda
        torch.testing.assert_close(vectors.cpu(), expected[output], rtol=1e-2, atol=1e-3)


def test_another_thread_may_allocate_pinned_memory_while_a_step_is_captured():
    """As the thread does that streams batches: in the global mode of capturing, that would end the capture."""
    asked, done, total = threading.Event(), threading.Event(), torch.zeros(3, device="cuda")

    def allocate():
        asked.wait(30)
        torch.empty(12_345_678, pin_memory=True)
        done.set()

    def function(x):
        total.add_(x)
        if torch.cuda.is_current_stream_capturing():
            asked.set()
            assert done.wait(30)

    thread = threading.Thread(target=allocate)
    thread.start()
    graph, one = Graph(function, []), torch.ones(3, device="cuda")
    for _ in range(CALLS_BEFORE_CAPTURE + 2):
        graph(one)
    thread.join()
    assert total.tolist() == [CALLS_BEFORE_CAPTURE + 2] * 3


def test_a_first_step_that_overflows_leaves_no_momentum_behind():
    """torch's fused SGD allocates momentum at its first step and does not write to it where fp16 overflowed."""
    weight = torch.nn.Parameter(torch.ones(1 << 20, device="cuda"))
    torch.full((1 << 20,), torch.nan, device="cuda")  # what the memory that is taken next would hold
    optimizer, scaler = build_optimizer([("w", weight)], "sgd", 0.1, 0.0), torch.amp.GradScaler("cuda")
    for factor in (torch.inf, 1.0):
        optimizer.zero_grad()
        scaler.scale((factor * weight).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.testing.assert_close(weight.detach(), torch.full_like(weight, 0.9))
