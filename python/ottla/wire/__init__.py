"""Kafka's messages: one declarative file per API, the headers around them, no I/O.

    from ottla.wire.k03_metadata import METADATA, MetadataRequest

    body = METADATA.encode_request(9, MetadataRequest(topics=None))

`api(key)` finds an API by its number, and imports its file only then. Produce and Fetch have hand-written code besides:
on the broker's hot path inside the hub, for clients as `_core.encode_fetch_request`, `decode_fetch_response` (whose
records are views of the response), `encode_produce_request` and `decode_produce_response`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.wire.schema import Api

#: The file of each API, by key: `k03_metadata` has METADATA.
_FILES = {
    int(found[1]): found[0]
    for module in iter_modules(__path__)
    if (found := re.fullmatch(r"k(\d+)_\w+", module.name)) is not None
}

KEYS = tuple(sorted(_FILES))
"""Every API that is declared here."""


def api(key: int) -> Api[Any, Any]:
    """The API with this key. Raises KeyError for a key that is not declared here."""
    name = _FILES[key]
    return getattr(import_module(f"ottla.wire.{name}"), name.partition("_")[2].upper())  # type: ignore[no-any-return]


def name(key: int) -> str:
    """The API's name for people; works for any number."""
    return api(key).name if key in _FILES else f"API {key}"


def is_flexible(key: int, version: int) -> bool:
    """True if the messages of this API's version are in the flexible encoding; False for keys that nobody knows."""
    return key in _FILES and api(key).is_flexible(version)
