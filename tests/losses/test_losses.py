"""Every loss against its literal formula, in its gradient, its precision and its refusals."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import literal
import pytest
import torch
from literal import BILINEAR
from torch._subclasses.fake_tensor import FakeTensorMode

from care import losses

EMBEDDINGS = {"queue_info_nce": 3, "simsiam": 4, "byol": 4, "mocov3": 4}


@dataclass(frozen=True)
class Case:
    """A loss, with settings."""

    name: str
    settings: dict[str, Any]
    views: int | None = None

    @property
    def loss(self):
        return partial(getattr(losses, self.name), **self.settings)

    @property
    def formula(self):
        return partial(getattr(literal, self.name), **self.settings)

    @property
    def embeddings(self):
        """How many embeddings it takes."""
        return self.views or EMBEDDINGS.get(self.name, 2)

    def __str__(self) -> str:
        views = [f"{self.views} views"] if self.views else []
        return "-".join([self.name, *views, *(getattr(v, "name", str(v)) for v in self.settings.values())])


CASES = [
    Case("info_nce", {"temperature": 0.5}),
    Case("info_nce", {"temperature": 0.07}),
    Case("info_nce", {"temperature": 0.2}, views=4),
    Case("dcl", {"temperature": 0.2}),
    Case("dcl", {"temperature": 0.2}, views=3),
    Case("hard_negatives", {"temperature": 0.5, "class_prior": 0.1, "concentration": 1.0}),
    Case("hard_negatives", {"temperature": 0.2, "class_prior": 0.1, "concentration": 0.0}, views=3),
    Case("hard_negatives", {"temperature": 0.2, "class_prior": 0.9, "concentration": 2.0}),  # mostly at the floor
    Case("mocov3", {"temperature": 0.2}),
    Case("queue_info_nce", {"temperature": 0.1}),
    *(
        Case(name, {"variant": v, "temperature": 0.2})
        for name in ("invariance", "uniformity")
        for v in ("paper", "authors", "wang-isola")
    ),
    *(Case(f"{part}_uniformity", {"chunks": chunks}) for part in ("orbit", "slice") for chunks in (1, 4)),
    *(Case("equivariance", {"chunks": chunks, "form": form}) for chunks in (1, 4) for form in BILINEAR),
    Case("barlow_twins", {"redundancy": 5e-3}),
    Case("vicreg", {"invariance": 25.0, "variance": 25.0, "covariance": 1.0}),
    Case("simsiam", {}),
    Case("byol", {}),
]
each_loss = pytest.mark.parametrize("case", CASES, ids=str)


def embeddings(case, generator, n=8, d=6, dtype=torch.float64):
    return [torch.randn(n, d, generator=generator, dtype=torch.float64).to(dtype) for _ in range(case.embeddings)]


@each_loss
def test_equals_the_literal_formula(case, generator):
    z = embeddings(case, generator)
    assert case.loss(*z).item() == pytest.approx(case.formula(*z), rel=1e-9)


@each_loss
def test_gradients_are_exact(case, generator):
    """Against finite differences, for the embeddings that carry a gradient."""
    carries = {"queue_info_nce": 1, "simsiam": 2, "byol": 2, "mocov3": 2}.get(case.name, case.embeddings)
    n = 8 if case.settings.get("chunks") == 4 else 5  # a chunk holds two
    z = embeddings(case, generator, n, d=4)
    inputs = [v.requires_grad_(i < carries) for i, v in enumerate(z)]
    assert torch.autograd.gradcheck(case.loss, inputs)


@pytest.mark.parametrize(
    ("name", "constant"), [("queue_info_nce", (1, 2)), *((name, (2, 3)) for name in ("simsiam", "byol", "mocov3"))]
)
def test_targets_carry_no_gradient(name, constant, generator):
    case = Case(name, {})
    z = [v.requires_grad_() for v in embeddings(case, generator)]
    case.loss(*z).backward()
    assert {i for i, v in enumerate(z) if v.grad is None} == set(constant)


@each_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(case, dtype, generator):
    z = embeddings(case, generator, n=64, d=32, dtype=dtype)
    exact = case.loss(*(v.double() for v in z))
    loss = case.loss(*z)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), exact, rtol=1e-5, atol=1e-5)


@each_loss
def test_autocast_does_not_reach_inside(case, generator):
    z = embeddings(case, generator, n=64, d=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = case.loss(*z)
    assert torch.equal(inside, case.loss(*z))


@each_loss
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_collapsed_embeddings_have_a_finite_loss_and_gradient(case, value):
    z = [torch.full((8, 6), value, requires_grad=True) for _ in range(case.embeddings)]
    loss = case.loss(*z)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(v.grad).all() for v in z if v.grad is not None)


@each_loss
def test_nothing_makes_the_host_wait(case):
    """Fake tensors have shapes but no values: code that would read a value off the GPU raises on them."""
    with FakeTensorMode():
        z = [torch.empty(8, 6, requires_grad=True) for _ in range(case.embeddings)]
        case.loss(*z).backward()


@each_loss
def test_nonfinite_values_pass_through_for_the_loop_to_catch(case, generator):
    z = embeddings(case, generator)
    z[0][3, 2] = torch.nan
    assert case.loss(*z).isnan()


@each_loss
@pytest.mark.usefixtures("unchecked")
def test_mismatched_shapes_are_refused(case, generator):
    z = embeddings(case, generator)
    with pytest.raises(ValueError, match=r"\(8, 5\)"):
        case.loss(z[0][:, :5], *z[1:])
    with pytest.raises(ValueError, match=r"\(7, 6\)"):
        case.loss(z[0], z[1][:7], *z[2:])


@each_loss
def test_a_batch_of_one_is_refused(case, generator):
    if case.name == "queue_info_nce":
        pytest.skip("its negatives come from the queue")
    with pytest.raises(ValueError, match=r"batch of 1 "):
        case.loss(*embeddings(case, generator, n=1))


@pytest.mark.parametrize("case", [c for c in CASES if "temperature" in c.settings], ids=str)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_not_positive_is_refused(case, temperature, generator):
    loss = partial(case.loss, temperature=temperature)
    with pytest.raises(ValueError, match="temperature must be greater than 0"):
        loss(*embeddings(case, generator))
