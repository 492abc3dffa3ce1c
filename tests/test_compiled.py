"""What `torch.compile` makes of the augmentations and of the networks, against what they are without it.

In a process of its own, because the shape checks of the tests cannot be compiled; one, because it takes as long to load
the compiler as to compile this.
"""

import os
import subprocess
import sys

import pytest

AUGMENTATIONS = """
import torch, care
g = torch.Generator().manual_seed(0)
p = care.augment.ImagePolicy(size=24, solarize=0.5, kernel_size=5).sample(6, (32, 40), g)
images = torch.rand(6, 3, 32, 40, generator=g)
compiled = torch.compile(care.augment.apply, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(images, p), care.augment.apply(images, p), atol=1e-5, rtol=0)
"""
VIEWS = """
import copy, torch
from timm.models.resnet import BasicBlock, ResNet
from torch._dynamo.utils import counters
from care.models import Encoder, forward_views, split_batchnorm
from care.models.blocks import compile_blocks
torch.manual_seed(0)
backbone = ResNet(BasicBlock, (3, 1, 1, 1), num_classes=0, channels=(8, 8, 8, 8))
backbone.layer3 = backbone.layer4 = torch.nn.Identity()  # each block takes long to compile
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
# Four blocks, two of them of one shape, and the BatchNorm of the stem.
assert counters["stats"]["unique_graphs"] == 4, counters["stats"]
with torch.compiler.set_stance("force_eager"):
    together.eval()(views[0][:1])
assert counters["stats"]["unique_graphs"] == 4, counters["stats"]
# Views that go forward only, up to the layer, leave nothing behind; all is compiled once more for them.
together.train()
for _ in range(2):
    found = together.equivariant_parts(views[:2])
    separate.eval()
    torch.testing.assert_close(found, [separate(view)[:, 5:] for view in views[:2]])
assert all(module.training for module in together.modules())
for name, buffer in separate.named_buffers():
    torch.testing.assert_close(together.get_buffer(name), buffer)
assert counters["stats"]["unique_graphs"] == 4 + 4, counters["stats"]
"""
TEACHER = """
import copy, torch
from timm.models.resnet import BasicBlock, ResNet
from torch._dynamo.utils import counters
from care.models import Encoder, forward_shuffled, split_batchnorm
from care.models.blocks import compile_blocks
torch.manual_seed(0)
backbone = ResNet(BasicBlock, (2, 1, 1, 1), num_classes=0, channels=(8, 8, 8, 8))
backbone.layer3 = backbone.layer4 = torch.nn.Identity()
plain = split_batchnorm(Encoder(backbone, torch.nn.Linear(8, 5), (0.0,) * 3, (1.0,) * 3).double())
compiled = copy.deepcopy(plain)
assert compile_blocks(compiled.backbone, backend="aot_eager", fullgraph=True)
views = list(torch.randn(2, 8, 3, 32, 32, dtype=torch.float64))
for _ in range(2):
    with torch.no_grad():
        a, b = (torch.cat(forward_shuffled(network, views, 4)) for network in (plain, compiled))
    torch.testing.assert_close(a, b)
    assert not b.requires_grad
for name, buffer in plain.named_buffers():
    torch.testing.assert_close(compiled.get_buffer(name), buffer)
# Three blocks, no two of one shape, and the BatchNorm of the stem.
assert counters["stats"]["unique_graphs"] == 4, counters["stats"]
"""
PROGRAMS = {
    "the augmentations, in one graph": AUGMENTATIONS,
    "views in one pass equal separate passes, also without a gradient": VIEWS,
    "a teacher, without gradients, in groups": TEACHER,
}
RUNNER = """
import sys, torch, traceback
for program in sys.argv[1:]:
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    try:
        exec(program, {})
        print("passed", end="\\0")
    except Exception:
        print(traceback.format_exc(), end="\\0")
"""


@pytest.fixture(scope="module")
def found():
    command = [sys.executable, "-c", RUNNER, *PROGRAMS.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return dict(zip(PROGRAMS, done.stdout.split("\0"), strict=False))


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_is_compiled_computes_the_same(what, found):
    assert found[what] == "passed"
