"""Conversations about rights: the requests of clients, and the part of the answers that rights decide.

There are the topics `t` and `u`, the groups `g` and `h`, and the transactional ids `x` and `y`. A client has one right:
on `t`, `g`, `x` or the cluster. So each answer shows what it may do and what it may not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from ottla import wire
from ottla.client.errors import ConnectionLost
from ottla.wire.acls import OPERATIONS, Binding, PatternType, Permission
from ottla.wire.k08_offset_commit import OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitRequestTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.needs import Operation, Resource
from tests.broker.authorization.ruled import Ruled, rule
from tests.support.client import batch
from tests.support.waiting import eventually

RECORDED = Path(__file__).parent / "recorded.json"
#: The one resource of a kind on which a client may have a right.
NAMES = {Resource.TOPIC: "t", Resource.GROUP: "g", Resource.CLUSTER: "kafka-cluster", Resource.TRANSACTIONAL_ID: "x"}
TOPICS = ("t", "u", "absent")
#: What rights decide in an answer, and what tells its rows apart.
KEPT = {
    *("error_code", "topic_config_error_code", "num_partitions", "is_internal"),
    *("cluster_authorized_operations", "topic_authorized_operations", "authorized_operations"),
    *("name", "topic", "topic_name", "partition_index", "partition", "group_id", "resource_name", "user"),
    *("transactional_id", "committed_offset", "producer_id"),
}
#: Numbers that differ from one broker to the next.
SHOWN = {"producer_id": lambda found: found if found < 0 else "one"}


def user_of(operation: Operation, resource: Resource) -> str:
    return f"{operation.name}-{resource.name}".lower().replace("_", ".")


def rights() -> dict[str, list[Binding]]:
    """The rules of each user."""
    found: dict[str, list[Binding]] = {"nobody": []}
    for resource, name in NAMES.items():
        for operation in OPERATIONS[resource]:
            user = user_of(operation, resource)
            found[user] = [rule(user, operation, resource, name)]
    everything = [rule("denied", Operation.ALL, resource, name) for resource, name in NAMES.items()]
    found["denied"] = [*everything, rule("denied", Operation.READ, Resource.TOPIC, "t", Permission.DENY)]
    found["prefixed"] = [rule("prefixed", Operation.DESCRIBE, Resource.TOPIC, "a", kind=PatternType.PREFIXED)]
    found["anyone"] = [
        rule("anyone", Operation.ALL, resource, "*") for resource in NAMES if resource != Resource.CLUSTER
    ]
    return found


def _rows(name: str = "name", partitions: str = "partitions", **values: object) -> list[dict[str, object]]:
    """A row for each topic with its first partition."""
    return [{name: topic, partitions: [values or 0]} for topic in TOPICS]


def _produced(records: bytes) -> dict[str, object]:
    return {"topics": [{"name": t, "partitions": [{"partition_index": 0, "records": records}]} for t in TOPICS]}


_FETCHED = _rows("topic", partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=-1)
_COMMITTED = _rows(partition_index=0, committed_offset=0, committed_metadata="")
_COMMITTED_BY_ALL = msgspec.convert(_COMMITTED[:1], list[OffsetCommitRequestTopic])
_RESOURCES = [
    *({"resource_type": 2, "resource_name": topic} for topic in TOPICS),
    {"resource_type": 4, "resource_name": "1"},
]
_CONFIGS = [{**row, "configs": [{"name": "segment.ms", "value": "1000"}]} for row in _RESOURCES[:3]]
#: Ottla asks whether the transaction has what is written to (KIP-890), which Kafka 2.7 does not.
OTHERWISE = {"txn offset commit": {"anyone"}, "produce in a transaction": {"anyone", "denied"}}
_RULE = {"resource_type": 2, "resource_name": "others", "principal": "User:other", "host": "*"}
_RULE |= {"operation": 3, "permission_type": 3}
_NO_RULE = {"resource_type_filter": 2, "resource_name_filter": "none", "principal_filter": None, "host_filter": None}
_NO_RULE |= {"operation": 1, "permission_type": 1}
_OF_TOKENS = {"resource_type_filter": 6, "resource_name_filter": None, "operation": 1, "permission_type": 1}
_STALE = {"controller_id": 1, "controller_epoch": 0, "broker_epoch": -1}

#: Key, version and message.
REQUESTS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "produce": (0, 8, {"transactional_id": None, "acks": 1, "timeout_ms": 1000, **_produced(batch(b"v"))}),
    "produce idempotent": (
        *(0, 8),
        {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 1000,
            **_produced(batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0)),
        },
    ),
    "produce in a transaction": (
        *(0, 8),
        {
            "transactional_id": "x",
            "acks": -1,
            "timeout_ms": 1000,
            **_produced(batch(b"v", producer_id=999, producer_epoch=0, base_sequence=0, transactional=True)),
        },
    ),
    "produce in no transaction": (
        *(0, 8),
        {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 1000,
            **_produced(batch(b"v", producer_id=999, producer_epoch=0, base_sequence=0, transactional=True)),
        },
    ),
    "fetch of a broker": (1, 11, {"replica_id": 2, "topics": _FETCHED}),
    "fetch": (1, 11, {"replica_id": -1, "topics": _FETCHED}),
    "fetch 3": (1, 3, {"replica_id": -1, "topics": _FETCHED}),
    "fetch with a session": (1, 11, {"replica_id": -1, "session_epoch": 0, "topics": _FETCHED}),
    "list offsets": (2, 5, {"replica_id": -1, "topics": _rows(partition_index=0, timestamp=-1)}),
    "list offsets 0": (2, 0, {"replica_id": -1, "topics": _rows(partition_index=0, timestamp=-1, max_num_offsets=1)}),
    "metadata": (
        *(3, 9),
        {
            "topics": [{"name": topic} for topic in TOPICS],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
    ),
    "metadata of all": (3, 9, {"topics": None, "include_topic_authorized_operations": True}),
    "metadata 0": (3, 0, {"topics": []}),
    "metadata that creates": (3, 5, {"topics": [{"name": "another"}], "allow_auto_topic_creation": True}),
    "leader and isr": (4, 4, _STALE),
    "stop replica": (5, 3, _STALE),
    "update metadata": (6, 6, _STALE),
    "controlled shutdown": (7, 3, {"broker_id": 99, "broker_epoch": -1}),
    "describe acls": (
        29,
        2,
        {"operation": 1, "permission_type": 1, "resource_type_filter": 6, "pattern_type_filter": 1},
    ),
    "create acls": (30, 2, {"creations": [_RULE]}),
    "delete acls": (31, 2, {"filters": [_NO_RULE]}),
    "offset commit": (8, 8, {"group_id": "g", "topics": _COMMITTED}),
    "offset commit of another": (8, 8, {"group_id": "h", "topics": _COMMITTED}),
    "offset fetch": (9, 7, {"group_id": "g", "topics": _rows(partitions="partition_indexes")}),
    "offset fetch of all": (9, 7, {"group_id": "g", "topics": None}),
    "offset fetch 1": (9, 1, {"group_id": "h", "topics": _rows(partitions="partition_indexes")}),
    "find coordinator of a group": (10, 3, {"key": "g", "key_type": 0}),
    "find coordinator of a transaction": (10, 3, {"key": "x", "key_type": 1}),
    "find coordinator of another": (10, 3, {"key": "y", "key_type": 1}),
    "join group": (
        *(11, 7),
        {
            "group_id": "h",
            "session_timeout_ms": 6000,
            "rebalance_timeout_ms": 6000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    "heartbeat": (12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}),
    "leave group": (13, 4, {"group_id": "g", "members": [{"member_id": "m"}]}),
    "leave group 0": (13, 0, {"group_id": "g", "member_id": "m"}),
    "sync group": (
        *(14, 5),
        {"group_id": "g", "generation_id": 1, "member_id": "m", "protocol_type": "c", "protocol_name": "r"},
    ),
    "describe groups": (15, 5, {"groups": ["g", "h", "absent"], "include_authorized_operations": True}),
    "list groups": (16, 4, {}),
    "create topics": (
        *(19, 6),
        {
            "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}, {"name": "t"}, {"name": "t"}],
            "validate_only": True,
        },
    ),
    "delete topics": (20, 5, {"topic_names": ["absent", "gone"], "timeout_ms": 1000}),
    "delete records": (21, 2, {"topics": _rows(partition_index=0, offset=0), "timeout_ms": 1000}),
    "init producer id": (22, 4, {"transactional_id": None, "transaction_timeout_ms": 60000}),
    "init transactional id": (22, 4, {"transactional_id": "x", "transaction_timeout_ms": 60000}),
    "offset for leader epoch": (
        *(23, 3),
        {"replica_id": -1, "topics": _rows(partition_index=0, current_leader_epoch=-1, leader_epoch=0)},
    ),
    "add partitions to txn": (24, 2, {"transactional_id": "x", "producer_id": 999, "topics": _rows()}),
    "add offsets to txn": (25, 2, {"transactional_id": "x", "producer_id": 999, "group_id": "g"}),
    "end txn": (26, 2, {"transactional_id": "x", "producer_id": 999}),
    "write txn markers": (
        *(27, 0),
        {"markers": [{"producer_id": 7, "topics": [{"name": "absent", "partition_indexes": [0]}]}]},
    ),
    "txn offset commit": (28, 3, {"transactional_id": "x", "group_id": "g", "topics": _COMMITTED}),
    "describe configs": (32, 3, {"resources": [{**one, "configuration_keys": ["x"]} for one in _RESOURCES]}),
    "alter configs": (33, 1, {"resources": _CONFIGS, "validate_only": True}),
    "alter replica log dirs": (34, 1, {"dirs": [{"path": "/nowhere", "topics": _rows()}]}),
    "describe log dirs": (35, 2, {"topics": [{"topic": "absent", "partition_index": [0]}]}),
    "create partitions": (
        *(37, 3),
        {"topics": [{"name": topic, "count": 9} for topic in TOPICS], "validate_only": True, "timeout_ms": 1000},
    ),
    "delete groups": (42, 2, {"groups_names": ["absent", "gone"]}),
    "elect leaders": (43, 2, {"topic_partitions": [{"topic": "absent", "partitions": [0]}]}),
    "incremental alter configs": (44, 1, {"resources": _CONFIGS, "validate_only": True}),
    "alter reassignments": (
        *(45, 0),
        {"topics": [{"name": "absent", "partitions": [{"partition_index": 0, "replicas": None}]}]},
    ),
    "list reassignments": (46, 0, {"topics": [{"name": "absent", "partition_indexes": [0]}]}),
    "offset delete": (47, 0, {"group_id": "g", "topics": _rows(partition_index=0)}),
    "describe client quotas": (48, 0, {"components": []}),
    "alter client quotas": (
        *(49, 0),
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "q"}],
                    "ops": [{"key": "consumer_byte_rate", "value": 1e9}],
                }
            ],
            "validate_only": True,
        },
    ),
    "describe scram credentials": (50, 0, {"users": [{"name": "absent"}]}),
    "alter scram credentials": (51, 0, {"deletions": [{"name": "absent", "mechanism": 1}]}),
    "alter isr": (56, 0, {"broker_id": 1, "broker_epoch": 0}),
    "update features": (57, 0, {"feature_updates": [{"feature": "f", "max_version_level": 1}]}),
}


def begin(ruled: Ruled) -> None:
    """Makes all that is asked about, and the rules."""
    topics = [CreatableTopic(name, 1, 1) for name in TOPICS[:2]]
    ruled.ask(None, CREATE_TOPICS, CreateTopicsRequest(topics=topics))
    for name in ("x", "y"):
        eventually("transactional ids are served", lambda name=name: _is_served(ruled, name))
    for name in ("g", "h"):
        eventually("groups are served", lambda name=name: _has_offsets(ruled, name))
    assert set(ruled.create(*(one for some in rights().values() for one in some))) == {0}


def _find(ruled: Ruled, name: str, kind: int) -> None:
    api = wire.api(10)
    ruled.ask(None, api, msgspec.convert({"key": name, "key_type": kind}, api.request), 3)


def _is_served(ruled: Ruled, name: str) -> bool:
    _find(ruled, name, 1)
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    return bool(ruled.ask(None, INIT_PRODUCER_ID, asked).error_code == 0)


def _has_offsets(ruled: Ruled, name: str) -> bool:
    _find(ruled, name, 0)
    answer = ruled.ask(None, OFFSET_COMMIT, OffsetCommitRequest(group_id=name, topics=_COMMITTED_BY_ALL))
    return bool(answer.topics[0].partitions[0].error_code == 0)


def shown(found: Any) -> Any:
    """The part of an answer that rights decide, in an order of its own. Nobody reads rows beside an error of the
    whole.
    """
    if isinstance(found, msgspec.Struct):
        values = {name: getattr(found, name) for name in found.__struct_fields__}
        if values.get("error_code"):
            values = {name: value for name, value in values.items() if not _are_rows(value)}
        kept = {}
        for name, value in values.items():
            if (
                isinstance(value, list)
                and value
                and isinstance(value[0], msgspec.Struct)
                and name not in ("brokers", "configs")
            ):
                kept[name] = sorted((shown(one) for one in value), key=json.dumps)
            elif name in KEPT:
                kept[name] = SHOWN[name](value) if name in SHOWN else value
        return kept
    return found


def _are_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], msgspec.Struct)


def converse(ruled: Ruled) -> dict[str, dict[str, list[str]]]:
    """The answers to each request, and the users that get each."""
    found: dict[str, dict[str, list[str]]] = {}
    users = {user: ruled.enter(user) for user in rights()}
    for name, (key, version, message) in REQUESTS.items():
        answers: dict[str, list[str]] = {}
        api = wire.api(key)
        for user in users:
            if user in OTHERWISE.get(name, ()):
                continue
            try:
                answer = users[user].call(api, msgspec.convert(message, api.request), version)
            except ConnectionLost:
                answer = "closed"
                users[user] = ruled.enter(user)
            answers.setdefault(json.dumps(shown(answer)), []).append(user)
        found[name] = {text: sorted(some) for text, some in sorted(answers.items())}
    for connection in users.values():
        connection.close()
    return found
