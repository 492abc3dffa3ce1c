"""Annotated shapes are checked on every call, in the process of the tests."""

from typing import get_args

import jaxtyping


def check_shapes(package: str) -> None:
    """jaxtyping's import hook for the functions and dataclasses that state a shape, before `package` is imported.

    By itself it wraps every function, also those within functions, each time the outer one is called: most of the time
    of an import, and much of that of a test, would go to annotations that mypy checks already.
    """
    jaxtyped = jaxtyping.jaxtyped

    def if_shaped(*, typechecker):
        return lambda made: jaxtyped(made, typechecker=typechecker) if states_a_shape(made) else made

    jaxtyping.jaxtyped = if_shaped
    jaxtyping.install_import_hook(package, "beartype.beartype")


def states_a_shape(made) -> bool:
    """Whether a function, or the constructor of a class, has a shape among its annotations."""
    function = made.__init__ if isinstance(made, type) else made
    return any(_holds_a_shape(hint) for hint in getattr(function, "__annotations__", {}).values())


def _holds_a_shape(hint) -> bool:
    if isinstance(hint, str):  # a class that is not made yet; with brackets it may be anything
        return "[" in hint
    return hasattr(hint, "make_transparent") or any(map(_holds_a_shape, get_args(hint)))
