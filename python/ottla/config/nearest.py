"""Which setting somebody may have meant. Loaded only when a name is unknown: difflib costs more than all of config."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like `name`, None if none is like it. Case does not count."""
    from difflib import get_close_matches

    by_lower = {known.lower(): known for known in names}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def hint(name: str, names: Iterable[str]) -> str:
    """`; did you mean X?` or nothing, to put behind a message about an unknown name."""
    found = nearest(name, names)
    return f"; did you mean {found}?" if found else ""


def is_near(name: str, known: str, least: float) -> bool:
    """Whether `name` is at least so much like `known`, from 0 to 1. Case does not count."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name.lower(), known).ratio() >= least
