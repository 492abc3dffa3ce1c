"""What a loss asks of its inputs: shapes and settings only, nothing that reads a value off the GPU."""

from torch import Tensor


def check_views(*views: Tensor) -> None:
    """All views are [n, d] of one shape, with n ≥ 2."""
    shapes = [tuple(view.shape) for view in views]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"the views must have one shape [n, d], got {' and '.join(map(str, shapes))}")
    if shapes[0][0] < 2:
        raise ValueError(f"a batch of {shapes[0][0]} has no pairs of different images: it needs at least 2")


def check_temperature(temperature: float) -> None:
    """τ > 0."""
    if not temperature > 0:
        raise ValueError(f"the temperature must be greater than 0, got {temperature}")
