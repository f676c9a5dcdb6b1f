"""Requests that a broker has to think about: of every API and version, with names and numbers that may well exist."""

import random
from functools import cache
from typing import Any

from ottla.broker.requests import SUPPORTED
from ottla.wire import api
from ottla.wire.headers import request_frame
from ottla.wire.schema import FieldSpec, Message, StructSpec, describe
from tests.faults.broker.decoders import batches, messages
from tests.wire.instances import within

BETWEEN_BROKERS = sorted(key for key, found in SUPPORTED.items() if found.is_between_brokers)
#: Left out where others are served: a default quota of 0 bytes per second stops an honest consumer, as it should.
ALTER_CLIENT_QUOTAS = 49
FOR_CLIENTS = sorted(set(SUPPORTED) - {*BETWEEN_BROKERS, ALTER_CLIENT_QUOTAS})

TOPICS = ("one", "two", "compacted", "gone")
INTERNAL = ("__consumer_offsets", "__transaction_state")  # who has no ACLs may delete these too, as in Kafka
GROUPS = ("g1", "g2", "", "g-none")
IDS = ("id-1", "id-2", "")
SUBSCRIPTION = b"\0\1\0\0\0\1\0\3one\xff\xff\xff\xff"

_TEXTS: dict[str, tuple[str, ...]] = {
    "topic": TOPICS,
    "topic_name": TOPICS,
    "group_id": GROUPS,
    "key": (*GROUPS, *IDS, "retention.ms", "cleanup.policy", "consumer_byte_rate"),
    "transactional_id": IDS,
    "member_id": ("", "m", "raw-1"),
    "group_instance_id": ("static-1", "static-2"),
    "protocol_type": ("consumer", ""),
    "protocol_name": ("range", ""),
    "entity_type": ("user", "client-id", "ip"),
    "mechanism": ("PLAIN", "GSSAPI"),
    "host": ("127.0.0.1",),
    "path": ("/", "/tmp/nowhere"),
    "resource_name": (*TOPICS, "99", "x"),
    # Of protocols, configs, topics: what each of them is called.
    "name": (*TOPICS, "range", "retention.ms", "segment.bytes", "cleanup.policy", "unheard.of"),
    "value": ("compact", "100", "-1", "delete,compact", "x"),
    "entity_name": ("somebody", ""),
}
_NUMBERS: dict[str, tuple[int, ...]] = {
    "partition": (0, 1, 2, -1),
    "partition_index": (0, 1, 2, -1),
    "partition_indexes": (0, 1, 2),
    "partitions": (0, 1, 2),
    "broker_id": (0, 1, 2, 0),
    "broker_ids": (1, 2),
    "acks": (-1, 0, 1, 1, 2),
    "timeout_ms": (0, 10, 50, -1),
    "max_wait_ms": (0, 10, 50, -1),
    "min_bytes": (0, 1, 100),
    "max_bytes": (0, 1, 1000, 1 << 20),
    "partition_max_bytes": (0, 1, 1000, 1 << 20),
    "session_timeout_ms": (6_000, 10_000, 0),
    "rebalance_timeout_ms": (100, 1_000, 0),
    "transaction_timeout_ms": (1_000, 60_000, 0),
    "num_partitions": (1, 2, 3, -1, 0),
    "replication_factor": (1, -1, 2, 0),
    "count": (1, 3, 4, 0),
    "producer_id": (0, 1, 2, 1000, -1),
    "producer_epoch": (0, 1, -1),
    "generation_id": (0, 1, 2, -1),
    "fetch_offset": (0, 1, 5, -1, 1 << 40),
    "offset": (0, 1, 5, -1, 1 << 40),
    "timestamp": (-1, -2, 0, 1_700_000_000_000),
    "committed_offset": (0, 5, -1),
    "session_id": (0, 0, 1, 12345),
    "session_epoch": (-1, 0, 1),
    "current_leader_epoch": (-1, 0, 1, 5),
    "leader_epoch": (-1, 0, 1, 5),
    "isolation_level": (0, 1, 2),
    "replica_id": (-1, -1, -2, 1),
    "resource_type": (2, 2, 3, 1),  # a topic's settings, nothing of the broker's
    "config_operation": (0, 1, 2, 3),
    "key_type": (0, 1, 2),
    "election_type": (0, 1),
    "coordinator_epoch": (0, 1, -1),
}
_PLAIN_NUMBERS = (0, 1, 2, 3, -1, 0x7FFF, 0x7FFFFFFF)
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_RECORDS = (*batches(), *messages(), b"", b"\0" * 61)

_described = cache(describe)


class Plausible:
    """Requests to the APIs in `keys`, which name internal topics too if `internal`."""

    def __init__(self, keys: list[int], *, internal: bool) -> None:
        self.keys = keys
        self._texts = {name: self._with_internal(texts, internal) for name, texts in _TEXTS.items()}

    @staticmethod
    def _with_internal(texts: tuple[str, ...], internal: bool) -> tuple[str, ...]:
        return (*texts, *INTERNAL) if internal and TOPICS[0] in texts else texts

    def request(self, chance: random.Random) -> bytes:
        """A whole frame that is right in form."""
        found = api(chance.choice(self.keys))
        version = chance.choice(found.versions)
        message = self._struct(_described(found.request), version, chance)
        body = found.encode_request(version, message)
        client = chance.choice((None, "raw", "fuzz"))
        return request_frame(found.key, version, chance.randrange(1 << 20), client, body)

    def _struct(self, spec: StructSpec, version: int, chance: random.Random) -> Message:
        present = [field for field in spec.fields if within(version, field.versions)]
        return spec.cls(**{field.name: self._field(field, version, chance) for field in present})

    def _field(self, field: FieldSpec, version: int, chance: random.Random) -> object:
        if within(version, field.nullable) and chance.random() < 0.2:
            return None
        return self._value(field.name, field.type, version, chance)

    def _value(self, name: str, kind: Any, version: int, chance: random.Random) -> object:
        if isinstance(kind, StructSpec):
            return self._struct(kind, version, chance)
        if isinstance(kind, tuple):
            return [self._value(name, kind[1], version, chance) for _ in range(chance.choice((0, 1, 1, 1, 2)))]
        if kind in _BITS:
            most = (1 << _BITS[kind]) - 1
            return max(-most - 1, min(most, chance.choice(_NUMBERS.get(name, _PLAIN_NUMBERS))))
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "float64":
            return chance.choice((0.0, -1.0, 1e9, float("nan"), float("inf")))
        if kind == "uuid":
            return chance.randbytes(16)
        if kind == "string":
            return chance.choice(self._texts.get(name, (*TOPICS, *GROUPS, "x" * 300)))
        if kind == "records" or name == "records":
            return chance.choice(_RECORDS)
        return chance.choice((b"", SUBSCRIPTION, chance.randbytes(20)))
