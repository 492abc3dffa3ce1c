"""Options of `care train`: one for every setting of a run, of every method, and of a method of the user's own."""

import dataclasses
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from care.cli.errors import users_input
from care.cli.shown_defaults import Owned, declared_head, default_in_words, defaults_of_data
from care.cli.static_settings import NotPlain, Setting, constant, fields_of, settings_of

REGISTERED: dict[Any, dict[str, str]] = constant("care.objective.registry", "REGISTERED")
CHOICES: dict[Any, str] = {
    "method": "Self-supervised method",
    "equivariance": "Equivariance added to the method, so that augmentations act on the embedding",
}
USUAL: dict[Any, str] = {"method": "simclr", "equivariance": "none; care for chains without --method"}
WHAT = "What to train"
PANELS = {"method": "Methods", "equivariance": "Equivariance"}


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting as a command-line option, in a `panel` of the help.

    `of` names the methods that have the setting, and is empty for settings of every run. `usual` are its defaults, each
    with its owner.
    """

    name: str
    kind: Any
    help: str
    panel: str
    of: tuple[str, ...] = ()
    usual: tuple[Owned, ...] = ()


def with_all_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**keywords` of a command by an option for every setting."""

    class TrainCommand(TyperCommand):
        """Loads the class of `--method mine.py:Mine` before it reads the other options, since it declares some."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            foreign = [(kind, name) for kind in CHOICES for name in _given(f"--{kind}", args) if ":" in name]
            if foreign:
                app = typer.Typer(add_completion=False)
                with users_input():
                    app.command()(_with_options(command, _options(foreign)))
                again = typer.main.get_command(app)
                self.params, self.callback = again.params, again.callback
            return super().parse_args(ctx, args)

    found = _with_options(command, _options())
    found.command_class = TrainCommand  # type: ignore[attr-defined]
    return found


def run_settings() -> tuple[Setting, ...]:
    """The settings that every run has."""
    try:
        return fields_of("care.train.config:Config")
    except NotPlain:
        from care.train.config import Config

        return tuple(field for field in imported_fields(Config) if field.name not in CHOICES)


def settings_named(kind: Any, name: str) -> tuple[Setting, ...]:
    """The settings of a method or an equivariance; a class of the user's own is imported for them."""
    try:
        return settings_of(REGISTERED[kind][name])
    except (KeyError, NotPlain):
        from care.objective.registry import load

        return tuple(imported_fields(load(kind, name, REGISTERED[kind].get(name)).Settings))


def imported_fields(settings: type) -> Iterator[Setting]:
    """The fields of an imported settings class."""
    kinds = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        yield Setting(field.name, kinds[field.name], field.metadata.get("help", ""), field.default)


def _options(foreign: Iterable[tuple[Any, str]] = ()) -> list[Option]:
    """All options: what to train, then the settings of methods, each setting once, then the settings of every run."""
    general = {setting.name: _option(setting, "Every run") for setting in run_settings()}
    what = [dataclasses.replace(general.pop("data"), panel=WHAT)]
    for kind, words in CHOICES.items():
        names = ", ".join((*REGISTERED[kind], "none"))
        what.append(Option(kind, str, f"{words}: {names}, or mine.py:Class.", WHAT, usual=(("", USUAL[kind]),)))
    registered = [(kind, name) for kind in REGISTERED for name in REGISTERED[kind]]
    found: dict[str, Option] = {}
    for kind, name in (*registered, *foreign):
        for setting in settings_named(kind, name):
            first = found.setdefault(setting.name, _option(setting, PANELS[kind]))
            of, usual = tuple(dict.fromkeys((*first.of, name))), (*first.usual, (name, setting.default))
            found[setting.name] = dataclasses.replace(first, of=of, usual=usual)
    return [*what, *(_with_usual(option) for option in (*found.values(), *general.values()))]


def _with_usual(option: Option) -> Option:
    """Add the defaults that depend on the data set or on the method's projection head."""
    of_data = defaults_of_data().get(option.name, [])
    folders = any(owner == "" for owner, _ in of_data)  # a default for folders replaces the one that is declared
    heads = [(name, declared_head(name)) for name in REGISTERED["method"]]
    of_heads = [(name, head[option.name]) for name, head in heads if option.name in head]
    return dataclasses.replace(option, usual=(*(() if folders else option.usual), *of_data, *of_heads))


def _option(setting: Setting, panel: str) -> Option:
    choices = f" One of {', '.join(map(str, get_args(setting.kind)))}." if get_origin(setting.kind) is Literal else ""
    words = setting.help or setting.name.replace("_", " ").capitalize() + "."
    usual = () if setting.default is dataclasses.MISSING else (("", setting.default),)
    return Option(setting.name, setting.kind, words + choices, panel, usual=usual)


def _with_options(command: Callable[..., None], options: list[Option]) -> Callable[..., None]:
    """A copy of the command with these options in its signature, which typer reads, in place of its keywords."""

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        command(**values)

    fixed = [p for p in inspect.signature(command).parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
    settings = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _plain(option.kind) | None, typer.Option(help=_help(option), rich_help_panel=option.panel)
            ],
        )
        for option in options
    ]
    with_options.__signature__ = inspect.Signature([*fixed, *settings])  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in (*fixed, *settings)} | {"return": None}
    return with_options


def _given(option: str, args: list[str]) -> Iterator[str]:
    """The values that an option has in a command line."""
    for word, following in itertools.pairwise([*args, ""]):
        if word == option:
            yield following
        elif word.startswith(f"{option}="):
            yield word.partition("=")[2]


def _help(option: Option) -> str:
    owners = f" [dim]({', '.join(option.of)})[/dim]" if option.of else ""
    return option.help + owners + default_in_words(option.name, option.help, option.usual)


def _plain(kind: Any) -> Any:
    """The type of an option: text for a choice of words, the number for a choice of numbers."""
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return next(option for option in get_args(kind) if option is not type(None))
    return kind
