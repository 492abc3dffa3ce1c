"""The tests' own instrument: shapes that are stated are checked, and nothing else is wrapped."""

import dataclasses

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float
from torch import Tensor

from care.geometry.collapse import alignment
from care.train.config import Config
from shape_checks import CALLS, begin_test, states_a_shape

Matrix = Float[Tensor, "n d"]


def test_a_wrong_shape_is_an_error_in_every_test():
    for _ in range(CALLS):
        with pytest.raises(BeartypeCallHintViolation):
            alignment(torch.zeros(3, 4), torch.zeros(2, 4))
    with pytest.raises(RuntimeError, match="must match the size"):  # torch's own words
        alignment(torch.zeros(3, 4), torch.zeros(2, 4))
    begin_test()
    with pytest.raises(BeartypeCallHintViolation):
        alignment(torch.zeros(3, 4), torch.zeros(2, 4))


def returned(count: int) -> Matrix: ...
def within(rows: list[tuple[int, Matrix]] | None) -> None: ...
def later(rows: "Float[Tensor, 'n d']") -> None: ...


@dataclasses.dataclass
class Stated:
    rows: Matrix


@pytest.mark.parametrize("made", [returned, within, later, Stated])
def test_a_shape_is_found_wherever_it_is_stated(made):
    assert states_a_shape(made)


def test_what_states_none_is_left_as_it_is():
    assert not states_a_shape(lambda x: x)
    assert not states_a_shape(str)
    assert not hasattr(Config.to_toml, "__wrapped__")
