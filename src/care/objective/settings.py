"""Settings: fields with a help text and a range, from which command-line options, TOML and checks are derived."""

import dataclasses
import functools
import math
import operator
import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def setting(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    above: int | float | None = None,
    at_least: int | float | None = None,
    at_most: int | float | None = None,
    below: int | float | None = None,
) -> Any:
    """A field of `Settings`: its default, its help text, and its range."""
    bounds = {"above": above, "at_least": at_least, "at_most": at_most, "below": below}
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    return dataclasses.field(default=default, metadata={"help": help, "bounds": known})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A dataclass of `setting`s, which are checked when it is created."""

    def __post_init__(self) -> None:
        check_settings(self)


def check_settings(settings: Any) -> None:
    """Raise ValueError, one sentence, for a value of the wrong type or outside its range; 3 is accepted for 3.0."""
    kinds = _kinds(settings.__class__)
    for field in dataclasses.fields(settings):
        value, kind = getattr(settings, field.name), kinds[field.name]
        if isinstance(value, int) and not isinstance(value, bool) and kind is float:
            if abs(value) >= 1 << 1000:
                raise ValueError(f"{field.name} must be a finite number")
            value = float(value)
            object.__setattr__(settings, field.name, value)
        if not _fits(value, kind):
            raise ValueError(f"{field.name} must be {in_words(kind)}, got {value!r}")
        if value is not None:
            _check_range(field.name, value, field.metadata.get("bounds", {}))


def names_in(text: str, of: str, such_as: str) -> list[str]:
    """The names in the setting called `of`, separated by commas, each once; ValueError if one of them is empty."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{of} has an empty name, got {text!r}: write names separated by commas, such as {such_as}")
    return list(dict.fromkeys(names))


def settings_as_dict(settings: Any) -> dict[str, Any]:
    """The values by name, not copied."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def in_words(kind: Any) -> str:
    """A type as it reads in an error message."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(in_words(option) for option in get_args(kind))
    words = {int: "a whole number", float: "a finite number", str: "text in Unicode", bool: "true or false"}
    return words.get(kind, "left out")


@functools.cache
def _kinds(settings: type) -> dict[str, Any]:
    """The types of the fields by name, cached: resolving them takes longer than checking a configuration."""
    return get_type_hints(settings)


INSIDE = {"above": operator.gt, "at_least": operator.ge, "at_most": operator.le, "below": operator.lt}
WORDS = {"above": "greater than", "at_least": "at least", "at_most": "at most", "below": "less than"}


def _check_range(name: str, value: Any, bounds: dict[str, int | float]) -> None:
    if not all(INSIDE[side](value, bound) for side, bound in bounds.items()):
        wanted = " and ".join(f"{WORDS[side]} {_number(bound)}" for side, bound in bounds.items())
        raise ValueError(f"{name} must be {wanted}, got {value}")


def _number(bound: int | float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return any(type(value) is type(option) and value == option for option in get_args(kind))  # True is not 1
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(kind))
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    if kind is str:
        return _is_unicode(value)
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def _is_unicode(value: object) -> bool:
    """Whether `value` is text that can be encoded: file names may hold bytes that are not Unicode."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
