"""Read constants and settings from the source of care's modules: importing them loads torch, which takes seconds.

Help, usage errors and shell completion need only the names of policies and the settings of methods. `NotPlain` is
raised if a declaration cannot be evaluated as a literal; the caller then imports the module.
"""

import ast
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

KINDS = {"int": int, "float": float, "str": str, "bool": bool}


class NotPlain(Exception):
    """A declaration that cannot be read without running it."""


@dataclass(frozen=True)
class Setting:
    """A field of a class of settings: its name, its type, what it means, and its default, MISSING if there is none."""

    name: str
    kind: Any
    help: str
    default: Any


def constant(module: str, name: str) -> Any:
    """The value of a constant of a module, or `Class.name`, if it is a number, a text, or a container of these."""
    owner, _, last = name.rpartition(".")
    body = _class(module, owner)[1].body if owner else _module(module).body
    try:
        return ast.literal_eval(_assigned(body, last))
    except ValueError as error:
        raise NotPlain(f"{module}.{name}") from error


def keys(module: str, name: str) -> tuple[str, ...]:
    """The keys of a dictionary of a module, whatever its values are."""
    node = _assigned(_module(module).body, name)
    if not isinstance(node, ast.Dict) or not all(isinstance(key, ast.Constant) for key in node.keys):
        raise NotPlain(f"{module}.{name}")
    return tuple(key.value for key in node.keys)  # type: ignore[union-attr]


def settings_of(where: str) -> tuple[Setting, ...]:
    """The settings of a method or an equivariance, `module:Class`: the fields of its class attribute `Settings`."""
    module, _, name = where.partition(":")
    module, node = _class(module, name)
    try:
        settings = _assigned(node.body, "Settings")
    except NotPlain:  # inherited
        return settings_of(f"{module}:{_names(node.bases)[0]}") if node.bases else ()
    return fields_of(f"{module}:{_names([settings])[0]}")


def fields_of(where: str) -> tuple[Setting, ...]:
    """The fields of a settings class, `module:Class`, in the order of dataclasses: those of its bases first, the last
    base before the others, and a redefined field in its old place."""
    module, _, name = where.partition(":")
    module, node = _class(module, name)
    found = {field.name: field for base in reversed(_names(node.bases)) for field in fields_of(f"{module}:{base}")}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            call = statement.value
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setting":
                key = statement.target.id
                found[key] = Setting(key, _kind(statement.annotation), _help(call), _default(call))
    return tuple(found.values())


@cache
def _module(name: str) -> ast.Module:
    *parents, last = name.split(".")[1:]
    folder = files("care").joinpath(*parents)
    file = folder.joinpath(f"{last}.py")
    try:
        return ast.parse((file if file.is_file() else folder.joinpath(last, "__init__.py")).read_bytes())
    except (OSError, SyntaxError) as error:
        raise NotPlain(name) from error


def _class(module: str, name: str) -> tuple[str, ast.ClassDef]:
    """(The module that defines the class, the class): `module` may only import it."""
    for node in _module(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("care."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _class(str(node.module), alias.name)
    raise NotPlain(f"{module}:{name}")


def _assigned(body: list[ast.stmt], name: str) -> ast.expr:
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and value is not None:
            return value
    raise NotPlain(name)


def _names(nodes: list[ast.expr]) -> list[str]:
    if not all(isinstance(node, ast.Name) for node in nodes):
        raise NotPlain(", ".join(map(ast.unparse, nodes)))
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _kind(node: ast.expr) -> Any:
    """The type that an annotation stands for: int, float, str, bool, a choice of literals, or one of these or None."""
    match node:
        case ast.Name(id=name) if name in KINDS:
            return KINDS[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _kind(left) | None
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            options = ast.literal_eval(choices)
            return Literal[options]
    raise NotPlain(ast.unparse(node))


def _help(call: ast.Call) -> str:
    """The help text of a call of `setting`: its second argument, or the one of that name."""
    return str(_argument(call, 1, "help", ""))


def _default(call: ast.Call) -> Any:
    """The default of a call of `setting`: its first argument, or the one of that name."""
    return _argument(call, 0, "default", MISSING)


def _argument(call: ast.Call, position: int, name: str, missing: Any) -> Any:
    named: Iterator[ast.expr] = (keyword.value for keyword in call.keywords if keyword.arg == name)
    node = call.args[position] if len(call.args) > position else next(named, None)
    try:
        return missing if node is None else ast.literal_eval(node)
    except ValueError as error:
        raise NotPlain(ast.unparse(call)) from error
