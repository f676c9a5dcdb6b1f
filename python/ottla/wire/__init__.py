"""Kafka's messages: one declarative file per API, the headers around them, no I/O.

    from ottla.wire.k03_metadata import METADATA, MetadataRequest

    body = METADATA.encode_request(9, MetadataRequest(topics=None))

`api(key)` finds an API by its number, and imports its file only then. Produce and Fetch have hand-written code besides:
on the broker's hot path inside the hub, for clients as `_core.encode_fetch_request`, `decode_fetch_response` (whose
records are views of the response), `encode_produce_request` and `decode_produce_response`.
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
    8: "k08_offset_commit",
    9: "k09_offset_fetch",
    10: "k10_find_coordinator",
    11: "k11_join_group",
    12: "k12_heartbeat",
    13: "k13_leave_group",
    14: "k14_sync_group",
    15: "k15_describe_groups",
    16: "k16_list_groups",
    17: "k17_sasl_handshake",
    18: "k18_api_versions",
    19: "k19_create_topics",
    20: "k20_delete_topics",
    21: "k21_delete_records",
    22: "k22_init_producer_id",
    23: "k23_offset_for_leader_epoch",
    24: "k24_add_partitions_to_txn",
    25: "k25_add_offsets_to_txn",
    26: "k26_end_txn",
    27: "k27_write_txn_markers",
    28: "k28_txn_offset_commit",
    29: "k29_describe_acls",
    30: "k30_create_acls",
    31: "k31_delete_acls",
    32: "k32_describe_configs",
    33: "k33_alter_configs",
    34: "k34_alter_replica_log_dirs",
    35: "k35_describe_log_dirs",
    36: "k36_sasl_authenticate",
    37: "k37_create_partitions",
    38: "k38_create_delegation_token",
    39: "k39_renew_delegation_token",
    40: "k40_expire_delegation_token",
    41: "k41_describe_delegation_token",
    42: "k42_delete_groups",
    43: "k43_elect_leaders",
    44: "k44_incremental_alter_configs",
    45: "k45_alter_partition_reassignments",
    46: "k46_list_partition_reassignments",
    47: "k47_offset_delete",
    48: "k48_describe_client_quotas",
    49: "k49_alter_client_quotas",
    50: "k50_describe_user_scram_credentials",
    51: "k51_alter_user_scram_credentials",
    56: "k56_alter_isr",
    57: "k57_update_features",
    60: "k60_describe_cluster",
    61: "k61_describe_producers",
    65: "k65_describe_transactions",
    66: "k66_list_transactions",
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
