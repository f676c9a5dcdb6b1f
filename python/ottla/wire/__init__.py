"""Kafka's messages: one declarative file per API, the headers around them, no I/O.

    from ottla.wire.k03_metadata import METADATA, MetadataRequest

    body = METADATA.encode_request(9, MetadataRequest(topics=None))

`api(key)` finds an API by its number, and imports its file only then. Produce and Fetch on the hot path have hand-written
code: `ottla.wire.produce` and `ottla.wire.fetch` for clients.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.wire.schema import Api

_FILES = {
    0: "k00_produce",
    1: "k01_fetch",
    2: "k02_list_offsets",
    3: "k03_metadata",
    4: "k04_leader_and_isr",
    5: "k05_stop_replica",
    6: "k06_update_metadata",
    7: "k07_controlled_shutdown",
    10: "k10_find_coordinator",
    18: "k18_api_versions",
    19: "k19_create_topics",
    20: "k20_delete_topics",
    22: "k22_init_producer_id",
    23: "k23_offset_for_leader_epoch",
    32: "k32_describe_configs",
    33: "k33_alter_configs",
    37: "k37_create_partitions",
    44: "k44_incremental_alter_configs",
}

KEYS = tuple(_FILES)
"""Every API that is declared here."""


def api(key: int) -> Api[Any, Any]:
    """The API with this key. Raises KeyError for a key that is not declared here."""
    name = _FILES[key]
    return getattr(import_module(f"ottla.wire.{name}"), name[4:].upper())  # type: ignore[no-any-return]


def name(key: int) -> str:
    """The API's name for people; works for any number."""
    return api(key).name if key in _FILES else f"API {key}"
