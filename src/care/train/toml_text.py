"""Settings as TOML: what the standard library reads, and nobody writes."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any


def written(values: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> str:
    """`name = value` lines, then a table for each of `tables`; what is None is left out."""
    return _lines(values) + "".join(f"\n[{name}]\n{_lines(table)}" for name, table in tables.items())


def read(text: str, where: str) -> dict[str, Any]:
    """The values and tables in `text`; a ValueError that says `where` it is from if it is no TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits and brackets in brackets are no TOML error
        raise ValueError(f"{where} is not valid TOML: {error}") from error


def named_table(kind: str, table: Any) -> dict[str, Any]:
    """What is below `[kind]`, or stands there as `kind = "name"`."""
    found = {"name": table} if isinstance(table, str) else table
    if not isinstance(found, dict):
        raise ValueError(f"{kind} must be a name or a table, got {table!r}")
    if not isinstance(found.get("name", ""), str):
        raise ValueError(f"the name of the {kind} must be text, got {found['name']!r}")
    return dict(found)


def _lines(values: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in values.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for one character that JSON does not mind.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
