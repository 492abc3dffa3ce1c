"""What a user probably meant by a name that does not exist."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message, "; did you mean …?" with the known name closest to `name`; empty if none is."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
