"""Progress messages of measurements: compiling takes minutes, and silence would look like a hang."""

from collections.abc import Callable

Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


def under(say: Say, heading: str) -> Say:
    """Say every line under a heading."""
    return lambda line: say(f"{heading}: {line}")


def then_measuring(say: Say, call: str, seconds: float) -> Callable[[float], None]:
    """Say how long the first call took, as soon as it is known, and how long the measurement will take."""
    return lambda first: say(f"first {call} after {first:.1f} s, measuring for {seconds:g} s")
