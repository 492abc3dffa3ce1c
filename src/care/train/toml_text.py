"""Settings as TOML, which the standard library can read but not write."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any


def written(values: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> str:
    """`name = value` lines, then a table for each of `tables`; values of None are left out."""
    return _lines(values) + "".join(f"\n[{name}]\n{_lines(table)}" for name, table in tables.items())


def read(text: str, where: str) -> dict[str, Any]:
    """The values and tables in `text`; ValueError that names its origin `where` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also raised for numbers of 5,000 digits and deep nesting
        raise ValueError(f"{where} is not valid TOML: {error}") from error


def named_table(kind: str, table: Any) -> dict[str, Any]:
    """The table `[kind]`; `kind = "name"` is accepted as a table with only a name."""
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
        # JSON's escapes are valid in TOML, too; DEL must be escaped in TOML only.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
