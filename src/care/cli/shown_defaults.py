"""The defaults that `care train --help` shows: general ones, and those of a method or a data set."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from rich.markup import escape

from care.cli.static_settings import NotPlain, constant

Owned = tuple[str, Any]  # (the method or data set that has this default, "" for the general one; the default)
SAID = "Default:"  # in a help text that gives its general default in words
ALONE, KEEP = "with --data alone", "with --keep"


def default_in_words(name: str, text: str, values: Iterable[Owned]) -> str:
    """Format defaults as "[default: 0.5; mocov2, dcl 0.1]": the general one, then others after their owners' names.

    If the help `text` already gives the general default in words, only the others.
    """
    by_value: dict[str, list[str]] = {}
    for owner, value in values:
        by_value.setdefault(_written(name, value), []).append(owner)
    if not by_value:
        return ""
    usual, *_ = by_value
    others = [f"{', '.join(owners)} {value}" for value, owners in by_value.items() if value != usual]
    parts = others if SAID in text else [f"default: {usual}", *others]
    return escape(f" [{'; '.join(parts)}]") if parts else ""


def _written(name: str, value: Any) -> str:
    """A value as typed on the command line."""
    if isinstance(value, bool):
        return ("" if value else "no-") + name.replace("_", "-")
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def defaults_of_data() -> dict[str, list[Owned]]:
    """Defaults by setting: for folders of pictures, for each data set, for --data alone, and for --keep."""
    recipes = "care.train.recipes"
    found: dict[str, list[Owned]] = {name: [("", value)] for name, value in constant(recipes, "OWN_PICTURES").items()}
    for data, values in constant(recipes, "DEFAULTS").items():
        for name, value in values.items():
            # `recommended_config` replaces the paper's ResNet-50 by a ResNet-18; a policy named after its data set
            # would only repeat the name
            if (name, value) != ("model", "resnet50") and value != data:
                found.setdefault(name, []).append((data, value))
    for data, values in constant(recipes, "MOCO").items():
        for name, value in values.items():
            found.setdefault(name, []).append((f"mocov2 on {data}", value))
    for owner, values in ((ALONE, "FOR_IMAGES"), (KEEP, "KEEP_SETTINGS")):
        for name, value in constant("care.train.recommended", values).items():
            found.setdefault(name, []).append((owner, value))
    return found


@cache
def declared_head(method: str) -> dict[str, Any]:
    """The projection head that a registered method declares; empty for one that has SimCLR's."""
    module, _, name = constant("care.objective.registry", "REGISTERED")["method"][method].partition(":")
    try:
        return dict(constant(module, f"{name}.head"))
    except NotPlain:
        return {}
