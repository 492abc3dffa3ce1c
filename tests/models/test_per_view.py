import copy

import pytest
import torch
from torch import nn

from care.models import Encoder, checkpoint_activations, forward_shuffled, forward_views, split_batchnorm


@pytest.fixture(params=["test_resnet", "test_efficientnet"])  # the second has activations inside its BatchNorms
def network(request):
    torch.manual_seed(0)
    return Encoder.build(request.param, input_shape=(32, 32), embedding_dim=8, head_width=16).double()


@pytest.fixture
def views(generator):
    return list(
        torch.randn(4, 6, 3, 32, 32, generator=generator, dtype=torch.float64) * torch.arange(1, 5).view(4, 1, 1, 1, 1)
    )


@pytest.mark.parametrize("reduce", [None, lambda x: x], ids=["one by one", "all at once"])
@pytest.mark.parametrize("sizes", [(6, 6, 6, 6), (6, 6, 3, 2)], ids=str)
def test_one_pass_equals_separate_passes(network, views, reduce, sizes):
    """Outputs, gradients and running statistics, for four views that differ in scale, of as many images or not."""
    views = [view[:size] for view, size in zip(views, sizes, strict=True)]
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
