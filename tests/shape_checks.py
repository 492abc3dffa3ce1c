"""Annotated shapes are checked in the process of the tests, in the first calls of every function in each test."""

import functools
import inspect
from typing import get_args

import jaxtyping
from beartype import beartype

JAXTYPED = jaxtyping.jaxtyped
CALLS = 10  # of each function in each test: what a loop does a thousand times, it does with the same shapes
_calls: dict[int, int] = {}


def check_shapes(package: str) -> None:
    """jaxtyping's import hook, for functions and dataclasses that state a shape, before `package` is imported.

    By itself the hook wraps every function, also those within functions, each time the outer one is called, and checks
    arguments twice: most of the time of an import, and a third of that of a test, would go into it.
    """
    jaxtyping.jaxtyped = lambda *, typechecker: _check_if_shaped
    jaxtyping.install_import_hook(package, "beartype.beartype")


def begin_test() -> None:
    """From here on, the first calls of every function are checked again."""
    _calls.clear()


def _check_if_shaped(made):
    if not states_a_shape(made):
        return made
    if not isinstance(made, type):
        return _checked(made)
    made.__init__ = _checked(made.__init__)
    return made


def _checked(function):
    if inspect.isgeneratorfunction(function):  # its body begins when its call has ended: arguments are checked apart
        checked = functools.cache(lambda: JAXTYPED(function, typechecker=beartype))
    else:
        checked = functools.cache(lambda: JAXTYPED(beartype(function), typechecker=None))

    code = id(function.__code__)  # that of a function within a function stays; its hash would be made anew each time

    @functools.wraps(function)
    def call(*args, **keywords):
        calls = _calls.get(code, 0)
        if calls >= CALLS or jaxtyping.config.jaxtyping_disable:
            return function(*args, **keywords)
        _calls[code] = calls + 1
        return checked()(*args, **keywords)

    return call


def states_a_shape(made) -> bool:
    """Whether a function, or the constructor of a class, has a shape among its annotations."""
    function = made.__init__ if isinstance(made, type) else made
    return any(_holds_a_shape(hint) for hint in getattr(function, "__annotations__", {}).values())


def _holds_a_shape(hint) -> bool:
    if isinstance(hint, str):  # a class that is not made yet; with brackets it may be anything
        return "[" in hint
    return hasattr(hint, "make_transparent") or any(map(_holds_a_shape, get_args(hint)))
