import json
import random
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from saved import equal

from care.train.state_tree import flatten_state, unflatten_state


def test_flat_state_comes_back_exactly(generator):
    random.seed(1)
    state = {
        "state": {0: {"step": torch.tensor(3.0)}, "0": torch.ones(2), True: [], 5: ()},
        "a/b": torch.zeros(1),
        "a": {"b": torch.ones(1), "dict": {"tensor": "x"}},
        "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "maximize": False, "foreach": None, "name": "sgd"}],
        "python": random.getstate(),
        "": torch.ones(3),
    }
    tensors, rest = flatten_state(state)
    assert len(tensors) == 5
    assert "state/0/step" in tensors
    assert equal(unflatten_state(tensors, json.loads(json.dumps(rest))), state)
    renamed, rest = flatten_state(state, "optimizer")
    assert all(name.startswith("optimizer/") for name in renamed)
    assert equal(unflatten_state(renamed | tensors, rest), state)
    for bare in (torch.ones(2), 3, None, [], "tensor"):
        assert equal(unflatten_state(*flatten_state(bare)), bare)
    assert equal(unflatten_state(*flatten_state(OrderedDict(a=1))), {"a": 1})


@pytest.mark.parametrize(
    "odd",
    [object(), {1, 2}, b"bytes", np.float64(1.0), np.ones(2), torch.Size([2]), namedtuple("Pair", "a b")(1, 2)],
    ids=lambda v: type(v).__name__,
)
def test_state_that_would_not_come_back_is_refused_with_its_place(odd):
    with pytest.raises(TypeError, match=r"opt/groups/1/betas is a " + type(odd).__name__):
        flatten_state({"groups": [1, {"betas": odd}]}, "opt")
    with pytest.raises(TypeError, match=r"groups/1 has the key \(1, 2\)"):
        flatten_state({"groups": [1, {(1, 2): 3}]})


def test_a_missing_tensor_is_named():
    tensors, rest = flatten_state({"a": [torch.ones(1)]})
    with pytest.raises(ValueError, match="a/0 is missing"):
        unflatten_state({}, rest)
    with pytest.raises(ValueError, match="'other'"):
        unflatten_state(tensors, {"other": 1})
