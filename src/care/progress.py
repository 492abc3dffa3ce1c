"""Long work reports its progress to a callback, which a command shows as a bar or as lines."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int], None]  # the name of the stage, the steps done, and their total


def silent(stage: str, done: int, total: int) -> None:
    """Shows nothing."""
