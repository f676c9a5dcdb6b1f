"""APIs and errors by the names that Kafka's documents have for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.broker.requests import SUPPORTED
from ottla.config.nearest import hint
from ottla.errors import BY_CODE

if TYPE_CHECKING:
    from ottla.wire.schema import Api


@cache
def apis() -> Mapping[str, Api[Any, Any]]:
    """All that a broker serves."""
    return {api.name: api for api in SUPPORTED.values()}


@cache
def errors() -> Mapping[str, int]:
    """The codes."""
    return {error.name: code for code, error in BY_CODE.items()}


def known_api(name: str) -> Api[Any, Any]:
    """Raises ValueError, with the nearest name, if none is called so."""
    found = apis().get(name)
    if found is None:
        raise ValueError(f"no API is called {name!r}{hint(name, apis())}")
    return found


def known_error(name: str) -> int:
    """Its code. Raises ValueError, with the nearest name, if none is called so."""
    found = errors().get(name)
    if found is None:
        raise ValueError(f"no error is called {name!r}{hint(name, errors())}")
    return found
