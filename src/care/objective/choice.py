"""A method, or an equivariance, chosen by name."""

from dataclasses import dataclass
from typing import Any

from care.objective.registry import Kind, find
from care.objective.settings import settings_as_dict


class Unchecked(dict[str, Any]):
    """Unchecked settings of a method defined outside of care: enough to load the encoder that it trained."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


@dataclass(frozen=True)
class Choice:
    """A method, or an equivariance, by name, with its settings."""

    name: str
    settings: Any = None

    def flat(self) -> dict[str, Any]:
        """The settings by name."""
        if self.settings is None or isinstance(self.settings, Unchecked):
            return dict(self.settings or {})
        return settings_as_dict(self.settings)


def choose(kind: Kind, name: str, **values: Any) -> Choice:
    """The choice of `name` with these settings; ValueError for an unknown name or setting."""
    found = find(kind, name)
    return Choice(name, None if found is None else found.Settings(**values))
