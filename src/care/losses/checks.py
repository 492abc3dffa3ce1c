"""Checks of a loss's inputs: shapes and settings only, so that no value is read from the GPU."""

from torch import Tensor


def check_views(*views: Tensor) -> None:
    """Require at least two views, all of one shape [n, d] with n ≥ 2."""
    if not all(isinstance(view, Tensor) for view in views):
        raise ValueError("the views must be tensors, and settings must be passed by name, such as temperature=0.5")
    shapes = [tuple(view.shape) for view in views]
    if len(views) < 2:
        raise ValueError(f"the loss needs at least 2 views, got {len(views)}")
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"the views must have one shape [n, d], got {' and '.join(map(str, shapes))}")
    if shapes[0][0] < 2:
        raise ValueError(f"a batch of {shapes[0][0]} has no pairs of different images: it needs at least 2")


def check_temperature(temperature: float) -> None:
    """Require τ > 0."""
    if not temperature > 0:
        raise ValueError(f"the temperature must be greater than 0, got {temperature}")
