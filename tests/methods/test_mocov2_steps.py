"""MoCo-v2 against the algorithm of its paper, step by step, and what BatchNorm could give away of a batch."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from care.objective import build_encoder, build_objective
from objective.small import BATCH, build, drawn, noise, small

MOMENTUM, TEMPERATURE, QUEUE = 0.9, 0.1, 24


class Algorithm:
    """Momentum contrast as its paper has it: a ring of keys, and a key encoder that nothing is trained through."""

    def __init__(self, encoder, queue):
        self.f_q, self.f_k, self.ring = encoder, copy.deepcopy(encoder), normalize(queue)
        self.sgd = torch.optim.SGD(encoder.parameters(), 0.1, momentum=0.9)
        self.oldest = len(queue) - 1  # ours puts new keys first

    def step(self, x_q, x_k):
        q, k = normalize(self.f_q(x_q)), self.keys(x_k)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.ring.T], dim=1) / TEMPERATURE
        loss = cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        with torch.no_grad():
            for theirs, ours in zip(self.f_k.parameters(), self.f_q.parameters(), strict=True):
                theirs.copy_(MOMENTUM * theirs + (1 - MOMENTUM) * ours)
            for key in reversed(k):
                self.ring[self.oldest] = key
                self.oldest = (self.oldest - 1) % len(self.ring)
        return loss

    @torch.no_grad()
    def keys(self, x_k):
        """Shuffled over two devices, each with a BatchNorm of its own."""
        k = torch.empty(len(x_k), 8, dtype=x_k.dtype)
        for device in range(2):
            k[device::2] = self.f_k(x_k[device::2])
        return normalize(k)


def test_five_steps_are_those_of_the_papers_algorithm():
    """Weights, key encoder and negatives: the queue, of three batches, goes round once."""
    objective = build(method="mocov2", teacher_momentum=MOMENTUM, temperature=TEMPERATURE, queue=QUEUE)
    theirs = Algorithm(copy.deepcopy(objective.encoder), objective.method.queue)
    sgd = torch.optim.SGD(objective.encoder.parameters(), 0.1, momentum=0.9)
    for step in range(5):
        views = drawn(objective, noise(seed=step), seed=step)
        loss = objective(views)["info_nce"].value
        torch.testing.assert_close(loss, theirs.step(*(view.inputs for view in views)), rtol=1e-7, atol=1e-7)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        objective.after_step(torch.tensor(0.5, dtype=torch.float64))
    for ours, copies in ((objective.encoder, theirs.f_q), (objective.method.teacher, theirs.f_k)):
        torch.testing.assert_close(list(ours.parameters()), list(copies.parameters()), rtol=1e-6, atol=1e-6)
    ours, ring = (sorted(map(tuple, queue.tolist())) for queue in (objective.method.queue, theirs.ring))
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(ring), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_key_does_not_depend_on_images_outside_its_group(symmetric):
    """What BatchNorm tells a key of its batch is every other image, not the ones that its query was normalized with."""
    objective = build(method="mocov2", symmetric=symmetric, queue=32)
    images, keys = noise(), []
    for changed in (None, slice(1, None, 2)):
        batch = images.clone()
        if changed is not None:
            batch[changed] = noise(seed=9)[changed]
        one = copy.deepcopy(objective)
        one(drawn(one, batch))
        keys.append(torch.stack(one.method.keys))
    torch.testing.assert_close(keys[0][:, ::2], keys[1][:, ::2])
    assert keys[0].shape == (1 + symmetric, BATCH, 8)
    assert (keys[0] - keys[1])[:, 1::2].abs().amin(dim=(0, 2)).min() > 0


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"symmetric": True},
        {"accumulate": 2},
        {"symmetric": True, "accumulate": 2},
        {"symmetric": True, "equivariance": "care", "contrast": "all", "chunks": 2},
        {"equivariance": "care", "contrast": "all", "chunks": 2, "accumulate": 2},
    ],
    ids=str,
)
def test_a_queue_holds_at_least_the_keys_that_enter_it_after_a_step(chosen):
    """They are counted in a step with a queue that is large enough for any: a smaller one would drop some of them."""
    config = small(method="mocov2", queue=100, **chosen)
    micro = BATCH // config.accumulate
    objective = build_objective(config, build_encoder(config, (32, 32)).double(), micro).double()
    for seed in range(config.accumulate):
        objective(drawn(objective, noise(micro, seed), micro))
    keys = sum(map(len, objective.method.keys))
    assert small(method="mocov2", queue=keys, **chosen).method.settings.queue == keys
    with pytest.raises(ValueError, match=f"^the queue of {keys - 1} is smaller than the {keys} keys of a step: choose"):
        small(method="mocov2", queue=keys - 1, **chosen)
