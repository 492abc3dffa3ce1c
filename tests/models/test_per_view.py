import copy
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

from care.models import Encoder, checkpoint_activations, forward_shuffled, forward_views, split_batchnorm


@pytest.fixture(params=["test_resnet", "test_efficientnet"])  # the second has activations inside its BatchNorms
def network(request):
    torch.manual_seed(0)
    return Encoder.build(request.param, source=(32, 32), embedding_dim=8, head_width=16).double()


@pytest.fixture
def views(generator):
    return list(
        torch.randn(4, 6, 3, 32, 32, generator=generator, dtype=torch.float64) * torch.arange(1, 5).view(4, 1, 1, 1, 1)
    )


@pytest.mark.parametrize("reduce", [None, lambda x: x], ids=["one by one", "all at once"])
def test_one_pass_equals_separate_passes(network, views, reduce):
    """Outputs, gradients and running statistics, for four views that differ in scale."""
    separate, together = network, split_batchnorm(copy.deepcopy(network), reduce)
    z = [separate(view) for view in views]
    w = forward_views(together, views)
    for a, b in zip(z, w, strict=True):
        torch.testing.assert_close(a, b)
    sum(v.square().sum() for v in z).backward()
    sum(v.square().sum() for v in w).backward()
    for (name, p), q in zip(separate.named_parameters(), together.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)
    for name, buffer in separate.named_buffers():
        torch.testing.assert_close(together.state_dict()[name], buffer, msg=name)


@pytest.mark.parametrize("reduce", [None, lambda x: x], ids=["one by one", "all at once"])
def test_activations_computed_twice_change_nothing(network, views, reduce):
    """Gradients and running statistics of two passes with other parts, and a block is indeed computed twice in each."""
    kept, twice = split_batchnorm(copy.deepcopy(network), reduce), split_batchnorm(network, reduce)
    checkpoint_activations(twice.backbone)
    calls = {id(kept): 0, id(twice): 0}
    for net in (kept, twice):
        convolutions = [module for module in net.backbone.modules() if isinstance(module, nn.Conv2d)]
        convolutions[len(convolutions) // 2].register_forward_hook(
            lambda *_, net=net: calls.update({id(net): calls[id(net)] + 1})
        )
        passes = forward_views(net, views) + forward_views(net, [view[:3] for view in views[:2]])
        sum(z.square().sum() for z in passes).backward()
    assert list(calls.values()) == [2, 4]
    for (name, p), q in zip(kept.named_parameters(), twice.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)
    for name, buffer in kept.named_buffers():
        torch.testing.assert_close(twice.state_dict()[name], buffer, msg=name)


def test_joint_statistics_are_those_of_the_concatenation(network, views):
    plain, converted = network, split_batchnorm(copy.deepcopy(network))
    torch.testing.assert_close(torch.cat(forward_views(converted, views, joint=True)), plain(torch.cat(views)))
    assert not torch.allclose(torch.cat(forward_views(converted, views)), plain(torch.cat(views)))


def test_evaluation_and_names_are_untouched(network, views):
    converted = split_batchnorm(copy.deepcopy(network)).eval()
    assert list(converted.state_dict()) == list(network.state_dict())
    torch.testing.assert_close(converted(views[0]), network.eval()(views[0]))


def test_shuffled_groups_are_interleaved(generator):
    """Each row is normalized with every third row, and comes back in its own place."""
    layer = split_batchnorm(nn.Sequential(nn.BatchNorm1d(4, affine=False).double()))
    x = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    for view, out in zip((x, x.square()), forward_shuffled(layer, [x, x.square()], groups=3), strict=True):
        for g in range(3):
            rows = view[g::3]
            expected = (rows - rows.mean(0)) / (rows.var(0, correction=0) + 1e-5).sqrt()
            torch.testing.assert_close(out[g::3], expected)


@pytest.mark.parametrize("shape", [(8, 4), (8, 4, 3, 5)])
def test_synchronized_statistics_of_one_process_are_plain_ones(shape, generator):
    """Value, gradient and running statistics of the formula against torch's own BatchNorm."""
    plain = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(4).double()
    nn.init.normal_(plain.weight, generator=generator)
    synchronized = split_batchnorm(nn.Sequential(copy.deepcopy(plain)), reduce=lambda x: x)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, out_synchronized = plain(a), synchronized(b)
    torch.testing.assert_close(out_synchronized, out)
    out.pow(3).sum().backward()
    out_synchronized.pow(3).sum().backward()
    torch.testing.assert_close(b.grad, a.grad)
    torch.testing.assert_close(synchronized[0].running_var, plain.running_var)


def test_compiled_views_equal_separate_passes():
    """Also of a layer. In a process of its own, because the shape checks of the test suite cannot be compiled."""
    program = """
        import copy, torch
        from timm.models.resnet import BasicBlock, ResNet
        from torch._dynamo.utils import counters
        from care.models import Encoder, forward_views, split_batchnorm
        from care.models.blocks import compile_blocks
        torch.manual_seed(0)
        backbone = ResNet(BasicBlock, (3, 1, 1, 1), num_classes=0, channels=(8, 8, 8, 8))
        c, r = torch.nn.Linear(8, 5), torch.nn.Linear(8, 3)
        separate = Encoder(backbone, c, (0.0,) * 3, (1.0,) * 3, layer="layer2", equivariant_head=r).double()
        together = split_batchnorm(copy.deepcopy(separate))
        assert compile_blocks(together.backbone, backend="aot_eager", fullgraph=True)
        views = list(torch.randn(4, 6, 3, 32, 32, dtype=torch.float64))
        for _ in range(2):  # the second pass meets what the first left in the running statistics
            a, b = [separate(view) for view in views], forward_views(together, views)
            torch.testing.assert_close(torch.cat(a), torch.cat(b))
            torch.cat(a).square().sum().backward()
            torch.cat(b).square().sum().backward()
        for p, q in zip(separate.parameters(), together.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
        for name, buffer in separate.named_buffers():
            torch.testing.assert_close(together.get_buffer(name), buffer)
        # Six blocks, two of them of one shape, and the BatchNorm of the stem.
        assert counters["stats"]["unique_graphs"] == 6, counters["stats"]
        with torch.compiler.set_stance("force_eager"):
            together.eval()(views[0][:1])
        assert counters["stats"]["unique_graphs"] == 6, counters["stats"]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, env=os.environ)
