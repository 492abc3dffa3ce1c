"""LARS against a transcription in scalars, the groups, and learning rates that live in tensors."""

import copy
import math

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from care.train.lars import LARS
from care.train.optimizers import build_optimizer, load_optimizer_state, set_learning_rate

NAMES = ("adam", "adamw", "sgd", "lars", "muon")
each_name = pytest.mark.parametrize("name", NAMES)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2)).double()


def backward(model, step):
    x = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    model.zero_grad()
    model(x).square().mean().backward()


def train(model, optimizer, steps):
    for step in steps:
        backward(model, step)
        optimizer.step()


def lars_in_scalars(w, g, v, lr, momentum, decay, trust, adapt):
    """One step of LARS on lists of numbers."""
    u = [gi + decay * wi for gi, wi in zip(g, w, strict=True)]
    size, change = math.sqrt(sum(wi * wi for wi in w)), math.sqrt(sum(ui * ui for ui in u))
    ratio = trust * size / change if adapt and size > 0 and change > 0 else 1.0
    v = [momentum * vi + lr * ratio * ui for vi, ui in zip(v, u, strict=True)]
    return [wi - vi for wi, vi in zip(w, v, strict=True)], v


@pytest.mark.parametrize("adapt", [True, False])
def test_lars_equals_its_formula(adapt, generator):
    """Over ten steps with changing rates, for weights of ordinary size, at 0, and without a gradient."""
    weights = [torch.randn(3, 4, generator=generator, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)]
    weights += [torch.randn(2, 2, generator=generator, dtype=torch.float64)]
    parameters = [nn.Parameter(w.clone()) for w in weights]
    optimizer = LARS(parameters, lr=0.1, momentum=0.8, weight_decay=0.01, trust=0.02, adapt=adapt)
    expected = [w.flatten().tolist() for w in weights]
    velocity = [[0.0] * w.numel() for w in weights]
    for step in range(10):
        set_learning_rate(optimizer, 0.1 + step)
        for i, p in enumerate(parameters):
            p.grad = torch.zeros_like(p) if i == 2 else torch.randn(p.shape, generator=generator, dtype=p.dtype)
            expected[i], velocity[i] = lars_in_scalars(
                expected[i], p.grad.flatten().tolist(), velocity[i], 0.1 + step, 0.8, 0.01, 0.02, adapt
            )
        optimizer.step()
        for p, e in zip(parameters, expected, strict=True):
            torch.testing.assert_close(p.detach().flatten(), torch.tensor(e, dtype=p.dtype), rtol=1e-11, atol=1e-13)


def test_lars_with_neither_weight_nor_gradient_stays_finite():
    w = nn.Parameter(torch.zeros(3, 3))
    w.grad = torch.zeros(3, 3)
    LARS([w], lr=1.0).step()
    assert torch.equal(w.detach(), torch.zeros(3, 3))


def test_lars_never_makes_the_host_wait():
    """Fake tensors have shapes but no values: code that would read a value off the GPU raises on them."""
    with FakeTensorMode():
        w = nn.Parameter(torch.empty(3, 3))
        optimizer = LARS([w], lr=torch.empty(()), weight_decay=0.1)
        for _ in range(2):
            w.grad = torch.empty(3, 3)
            optimizer.step()


def test_lars_without_adaptation_is_sgd_while_the_rate_is_constant():
    ours, theirs = network(), network()
    train(ours, LARS(ours.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, adapt=False), range(5))
    train(theirs, torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01), range(5))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


def test_lars_takes_a_closure():
    w = nn.Parameter(torch.ones(2))
    optimizer = LARS([w], lr=1.0)

    def closure():
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert w[0].item() == pytest.approx(1 - 1e-3)  # ρ‖u‖ = η‖w‖


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("adam", lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.2)),
        ("adamw", lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, weight_decay=0.2)),
    ],
)
def test_names_mean_what_they_mean_in_torch_and_everything_decays(name, reference):
    ours, theirs = network(), network()
    train(ours, build_optimizer(ours, name, 0.1, 0.2, sgd_momentum=0.8), range(4))
    train(theirs, reference(theirs.parameters()), range(4))
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@each_name
def test_norms_and_biases_are_excluded_by_lars_and_muon_alone(name):
    groups = build_optimizer(network(), name, 0.1, 0.2).param_groups
    decayed = {n for g in groups if g["weight_decay"] == 0.2 for n in g["param_names"]}
    excluded = {n for g in groups if g["weight_decay"] == 0 and not g["adapt"] for n in g["param_names"]}
    everything = {n for n, _ in network().named_parameters()}
    assert decayed | excluded == everything
    assert decayed == ({"0.weight", "3.weight"} if name in ("lars", "muon") else everything)


@each_name
def test_each_parameter_that_wants_a_gradient_is_there_once(name):
    model = network()
    model[3].bias.requires_grad_(False)
    optimizer = build_optimizer([*model.named_parameters(), ("again", model[0].weight)], name, 0.1, 0.0)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert sorted(map(id, held)) == sorted(id(p) for p in model.parameters() if p.requires_grad)
    with pytest.raises(ValueError, match="nothing to train"):
        build_optimizer(model.requires_grad_(False), name, 0.1, 0.0)


@each_name
def test_a_learning_rate_in_a_tensor_acts_as_a_number_and_stays_in_place(name):
    """Of LARS with two groups, which share the tensor; the same numbers as a float, up to the rounding of fp64."""
    rate = torch.tensor(0.5, dtype=torch.float64)
    models = network(), network()
    number = build_optimizer(models[0], name, 0.5, 0.01)
    tensor = build_optimizer(models[1], name, rate, 0.01)
    for step in range(4):
        for model, optimizer in zip(models, (number, tensor), strict=True):
            set_learning_rate(optimizer, 0.1 / (step + 1))
            train(model, optimizer, [step])
    assert all(group["lr"] is rate for group in tensor.param_groups)
    assert rate.item() == 0.1 / 4
    assert {group["lr"] for group in number.param_groups} == {0.1 / 4}
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@each_name
def test_saved_state_goes_on_bit_for_bit(name):
    """Three steps and three more equal six; what was saved is copied, not trained on; the rate keeps its tensor."""
    rate = torch.tensor(0.1, dtype=torch.float64)
    whole, first, second = network(), network(), network()
    train(whole, build_optimizer(whole, name, rate, 0.01), range(6))
    before = build_optimizer(first, name, rate, 0.01)
    train(first, before, range(3))
    saved = before.state_dict()
    copies = copy.deepcopy(saved["state"])
    second.load_state_dict(first.state_dict())
    after = build_optimizer(second, name, rate, 0.01)
    load_optimizer_state(after, saved)
    train(second, after, range(3, 6))
    assert all(map(torch.equal, whole.parameters(), second.parameters()))
    assert all(group["lr"] is rate for group in after.param_groups)
    assert all(torch.equal(value, saved["state"][i][key]) for i in copies for key, value in copies[i].items())


@each_name
def test_saved_state_is_laid_out_as_the_parameters_are(name):
    """A checkpoint is contiguous, the network it is for may be channels-last."""
    first, second = network(), network().to(memory_format=torch.channels_last)
    before, after = (build_optimizer(model, name, 0.1, 0.01) for model in (first, second))
    train(first, before, range(2))
    load_optimizer_state(after, before.state_dict())
    buffers = [value for value in after.state[second[0].weight].values() if value.ndim]
    saved = [value for value in before.state[first[0].weight].values() if value.ndim]
    assert buffers
    assert all(value.is_contiguous(memory_format=torch.channels_last) for value in buffers)
    assert all(map(torch.equal, buffers, saved))


def test_state_of_other_parameters_is_refused():
    saved = build_optimizer(network(), "sgd", 0.1, 0.0).state_dict()
    renamed = build_optimizer([(f"x.{n}", p) for n, p in network().named_parameters()], "sgd", 0.1, 0.0)
    with pytest.raises(ValueError, match=r"other parameters: .*0\.weight.* instead of .*x\.0\.weight"):
        load_optimizer_state(renamed, saved)
    model = network()
    trained = build_optimizer(model, "sgd", 0.1, 0.0)
    train(model, trained, [0])
    wrong = trained.state_dict()
    wrong["state"][0] = {"momentum_buffer": torch.ones(2, 3)}
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        load_optimizer_state(build_optimizer(network(), "sgd", 0.1, 0.0), wrong)


@pytest.mark.usefixtures("unchecked")
def test_senseless_settings_are_refused():
    for settings, match in [
        (("sgd", -0.1, 0.0), "learning rate"),
        (("sgd", float("nan"), 0.0), "learning rate"),
        (("lars", 0.1, -1.0), "weight decay"),
        (("adam", 0.1, 0.0, 1.0), "momentum"),
        (("adagrad", 0.1, 0.0), "'adagrad'"),
    ]:
        with pytest.raises(ValueError, match=match):
            build_optimizer(network(), *settings)


def test_norms_and_biases_can_go_without_decay():
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for name in ("adam", "adamw", "sgd"):
        groups = build_optimizer(network, name, 0.1, 0.5, norm_bias_decay=False).param_groups
        decays = {parameter: group["weight_decay"] for group in groups for parameter in group["params"]}
        assert {p.ndim: decays[p] for p in network.parameters()} == {2: 0.5, 1: 0.0}


def test_momentum_is_at_rest_before_the_first_step(generator):
    """So a first step that is left out, as fp16 does with one that overflows, leaves nothing uninitialized."""
    ours, theirs = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    optimizers = (
        build_optimizer([("w", ours)], "sgd", 0.1, 0.01),
        torch.optim.SGD([theirs], 0.1, 0.9, weight_decay=0.01),
    )
    assert torch.equal(optimizers[0].state[ours]["momentum_buffer"], torch.zeros(5, dtype=torch.float64))
    for _ in range(3):
        gradient = torch.randn(5, generator=generator, dtype=torch.float64)
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert torch.equal(ours, theirs)
