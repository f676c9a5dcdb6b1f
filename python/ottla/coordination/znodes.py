"""The nodes that Kafka keeps in the tree: every path, and the JSON of every node, as Apache Kafka 2.7 writes it (its
`ZkData.scala`).

Three rules hold for all of them:

- What Kafka writes as a string stays a string: timestamps, `block_start` and `block_end`, config values, and the
  "version" of `/cluster/id`.
- Fields that we do not know are kept (`extra`) and written back: Kafka 3.9 adds `topic_id` (topic version 3) and
  `leader_recovery_state`; losing a topic id beside a kept `partition.metadata` stops a 3.9 broker.
- Reading is lenient, as Kafka's is; what cannot be understood raises `MalformedNode`, which names the path.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from ottla.coordination.tree import TreeError
from ottla.kafka import NO_LEADER, TopicPartition

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"
CONFIG = "/config"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
ADMIN = "/admin"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
FEATURE = "/feature"

PERSISTENT_PATHS = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    CONFIG_TOPICS,
    "/config/clients",
    "/config/users",
    CONFIG_BROKERS,
    "/config/ips",
)
"""The nodes that a broker makes at its start so that everyone can watch them. `/config/ips` is Kafka 2.8's and later.
"""


UNCLEAN = "ottla_unclean"
"""In a broker's registration: replicas of it may have lost records with the power of their machine."""
RESIGNED = "ottla_resigned"
"""In a broker's registration: its process led partitions before, and has resigned from them."""
ORDERED = "ottla_ordered"
"""In a partition's state: its leader leads by an operator's order, though it may have lost records."""

INT32_MAX = 2**31 - 1
LEADER_EPOCH_MAX = 2**30
"""So many leaders no partition ever had, and from here on there is room for as many more."""


class MalformedNode(TreeError):
    """A node's data is not what Kafka writes there."""


_WRONG = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""The exceptions of reading fields that have other types or values than they should."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_type: str, entity_name: str) -> str:
    """`entity_type` is topics, brokers, clients or users; the name is already sanitized where Kafka does that."""
    return f"{CONFIG}/{entity_type}/{entity_name}"


def _fields(path: str, data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedNode(path, f"not JSON: {data[:80]!r}") from error
    if not isinstance(value, dict):
        raise MalformedNode(path, f"not an object: {data[:80]!r}")
    return value


def _number(value: Any, least: int = 0, most: int = INT32_MAX) -> int:
    """Raises one of _WRONG for what does not fit into requests."""
    number = int(value)
    if not least <= number <= most:
        raise ValueError(f"{number} is not in {least}..{most}")
    return number


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"no list: {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {value!r}")
    return value


def broker_of(name: str) -> int:
    """The broker whose registration has this name below `/brokers/ids`. Raises MalformedNode if it is no id."""
    if name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) <= INT32_MAX:
        return int(name)
    raise MalformedNode(f"{BROKER_IDS}/{name[:80]}", "the name is no broker's id")


def _encode(fields: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(fields)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Endpoint(NamedTuple):
    """Where a broker listens: `listener` is the listener's name, `protocol` its security protocol."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(msgspec.Struct, frozen=True):
    """`/brokers/ids/N`: version 5, which is 2.7's; the features are empty unless feature versioning is used.

    `ottla` is the version of an Ottla broker; None is one of Kafka's, which do not look at this field. `is_unclean`:
    the broker's machine lost its power, and some of its replicas in sync may have lost records; only Ottla says so.
    `has_resigned`: the process knows leader epochs in which it led, and leads no more; likewise.
    """

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = 0
    features: dict[str, Any] = {}
    ottla: str | None = None
    is_unclean: bool = False
    has_resigned: bool = False

    def encode(self) -> bytes:
        plain = next((endpoint for endpoint in self.endpoints if endpoint.protocol == "PLAINTEXT"), None)
        fields: dict[str, Any] = {
            "version": 5,
            # For clients that know only these two; Kafka writes null and -1 when no listener is plain text.
            "host": plain.host if plain else None,
            "port": plain.port if plain else -1,
            "endpoints": [str(endpoint) for endpoint in self.endpoints],
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
            "listener_security_protocol_map": {endpoint.listener: endpoint.protocol for endpoint in self.endpoints},
            "features": self.features,
        }
        if self.rack is not None:
            fields["rack"] = self.rack
        if self.ottla is not None:
            fields["ottla"] = self.ottla
        if self.is_unclean:
            fields[UNCLEAN] = True
        if self.has_resigned:
            fields[RESIGNED] = True
        return _encode(fields)

    @classmethod
    def decode(cls, path: str, data: bytes) -> BrokerRegistration:
        fields = _fields(path, data)
        try:
            endpoints: tuple[Endpoint, ...]
            if fields["version"] == 1:
                endpoints = (_checked(Endpoint("PLAINTEXT", fields["host"], int(fields["port"]))),)
            else:
                protocols = fields.get("listener_security_protocol_map") or {}
                endpoints = tuple(_endpoint(_text(text), protocols) for text in fields["endpoints"])
            rack, ottla = fields.get("rack"), fields.get("ottla")
            return cls(
                endpoints=endpoints,
                rack=None if rack is None else _text(rack),
                jmx_port=int(fields.get("jmx_port", -1)),
                timestamp_ms=int(fields.get("timestamp") or 0),
                features=fields.get("features") or {},
                ottla=None if ottla is None else _text(ottla),
                is_unclean=bool(fields.get(UNCLEAN)),
                has_resigned=bool(fields.get(RESIGNED)),
            )
        except _WRONG as error:
            raise MalformedNode(path, f"not a broker's registration: {data[:200]!r}") from error


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(text)
    listener = listener.upper()
    return _checked(Endpoint(listener, host.strip("[]"), int(port), _text(protocols.get(listener, listener))))


def _checked(endpoint: Endpoint) -> Endpoint:
    """Raises ValueError for what nobody could connect to."""
    if "\0" in endpoint.host or not 0 <= endpoint.port <= 65535:
        raise ValueError(f"no address: {endpoint}")
    endpoint.host.encode("idna")
    return endpoint


class TopicAssignment(msgspec.Struct, frozen=True):
    """`/brokers/topics/T`: which brokers hold each partition, the preferred leader first.

    `partitions` is by partition number; `adding` and `removing` hold the partitions under reassignment.
    """

    partitions: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]] = {}
    removing: dict[int, tuple[int, ...]] = {}
    version: int = 2
    extra: dict[str, Any] = {}

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "version": self.version,
            "partitions": _by_text(self.partitions),
            "adding_replicas": _by_text(self.adding),
            "removing_replicas": _by_text(self.removing),
        }
        return _encode(fields | self.extra)

    @classmethod
    def decode(cls, path: str, data: bytes) -> TopicAssignment:
        fields = _fields(path, data)
        try:
            partitions = _by_number(fields.pop("partitions"))
            if not all(partitions.values()):
                raise ValueError("a partition without replicas")
            return cls(
                partitions=partitions,
                adding=_by_number(fields.pop("adding_replicas", {})),
                removing=_by_number(fields.pop("removing_replicas", {})),
                # Version 1 had no fields for reassignment; whoever writes again writes at least 2.
                version=max(2, _number(fields.pop("version", 2))),
                extra=fields,
            )
        except _WRONG as error:
            raise MalformedNode(path, f"not a topic's assignment: {data[:200]!r}") from error


def _by_text(replicas: Mapping[int, Iterable[int]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in sorted(replicas.items())}


def _by_number(replicas: Mapping[str, Iterable[int]]) -> dict[int, tuple[int, ...]]:
    # A topic may have thousands of partitions: all are looked at together.
    found = {int(partition): tuple(map(int, brokers)) for partition, brokers in replicas.items()}
    if not set(map(type, replicas.values())) <= {list}:
        raise TypeError("brokers that are no list")
    if not all(map(_may_be, (found, chain.from_iterable(found.values())))):
        raise ValueError("a number that is none of a partition or broker")
    if sum(map(len, map(set, found.values()))) < sum(map(len, found.values())):
        raise ValueError("a broker is named twice")
    return found


def _may_be(numbers: Iterable[int]) -> bool:
    """True if all of them could be numbers of partitions, or ids of brokers."""
    known = {0, *numbers}
    return min(known) >= 0 and max(known) <= INT32_MAX


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """`/brokers/topics/T/partitions/P/state`: who leads since which epoch, and who is in sync.

    `leader` is -1 (nobody) while the partition is offline. `controller_epoch` is that of the controller that decided,
    also
    where the leader itself changed the ISR since.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    extra: dict[str, Any] = {}

    def encode(self) -> bytes:
        fields = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        return _encode(fields | self.extra if self.extra else fields)

    @classmethod
    def decode(cls, path: str, data: bytes) -> PartitionState:
        fields = _fields(path, data)
        try:
            fields.pop("version", None)
            leader, leader_epoch = int(fields.pop("leader")), int(fields.pop("leader_epoch"))
            controller_epoch, isr = int(fields.pop("controller_epoch")), fields.pop("isr")
            # In line, since a controller reads thousands of them in one go.
            if not (
                NO_LEADER <= leader <= INT32_MAX
                and 0 <= leader_epoch <= LEADER_EPOCH_MAX
                and 0 <= controller_epoch <= INT32_MAX
                and isinstance(isr, list)
            ):
                raise ValueError("a number that cannot be")
            in_sync = tuple(map(int, isr))
            if in_sync and (min(in_sync) < 0 or max(in_sync) > INT32_MAX or len(set(in_sync)) < len(in_sync)):
                raise ValueError("replicas that cannot be in sync")
            return cls(leader, leader_epoch, in_sync, controller_epoch, fields)
        except _WRONG as error:
            raise MalformedNode(path, f"not a partition's state: {data[:200]!r}") from error


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _encode({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode_controller(data: bytes) -> int:
    """The id of the broker that is the controller."""
    try:
        return _number(_fields(CONTROLLER, data)["brokerid"])
    except _WRONG as error:
        raise MalformedNode(CONTROLLER, f"names no broker: {data[:80]!r}") from error


def encode_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_epoch(data: bytes) -> int:
    try:
        return _number(data, 0, INT32_MAX - 1)
    except _WRONG as error:
        raise MalformedNode(CONTROLLER_EPOCH, f"no epoch: {data[:80]!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    try:
        return _text(_fields(CLUSTER_ID, data)["id"])
    except _WRONG as error:
        raise MalformedNode(CLUSTER_ID, "names no cluster") from error


def encode_config(config: Mapping[str, str]) -> bytes:
    """`/config/TYPE/NAME`: the entity's own settings, every value a string."""
    return _encode({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Empty for a node without data, which Kafka makes for the entity types themselves."""
    if not data:
        return {}
    config = _fields(path, data).get("config") or {}
    if not isinstance(config, dict):
        raise MalformedNode(path, f"not a config: {data[:80]!r}")
    return {name: value if isinstance(value, str) else str(value) for name, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    """`/config/changes/config_change_N`: which entity's config changed, as TYPE/NAME."""
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """TYPE/NAME, also of the version 1 that Kafka's oldest tools wrote."""
    fields = _fields(path, data)
    try:
        if fields.get("version") == 1:
            return f"{fields['entity_type']}/{fields['entity_name']}"
        return str(fields["entity_path"])
    except KeyError as error:
        raise MalformedNode(path, f"names no entity: {data[:80]!r}") from error


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """`/isr_change_notification/isr_change_N`: partitions whose leader changed their ISR in the tree."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]
    return _encode({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    """A list of partitions: `/isr_change_notification/...` and `/admin/preferred_replica_election` hold one."""
    try:
        return [_partition(entry) for entry in _fields(path, data)["partitions"]]
    except _WRONG as error:
        raise MalformedNode(path, f"names no partitions: {data[:80]!r}") from error


def _partition(entry: Any) -> TopicPartition:
    return TopicPartition(_text(entry["topic"]), int(entry["partition"]))


def decode_reassignment(path: str, data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """`/admin/reassign_partitions`: the replicas that partitions are to have."""
    try:
        return {
            _partition(entry): tuple(map(int, _list(entry["replicas"]))) for entry in _fields(path, data)["partitions"]
        }
    except _WRONG as error:
        raise MalformedNode(path, f"names no partitions with their replicas: {data[:80]!r}") from error


def encode_reassignment(wanted: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """The data of the node that asks for these reassignments, as `decode_reassignment` reads it."""
    listed = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(wanted.items())
    ]
    return _encode({"version": 1, "partitions": listed})


def encode_log_dir_event(broker_id: int) -> bytes:
    """`/log_dir_event_notification/log_dir_event_N`: a broker lost a log directory (the only event there is, 1)."""
    return _encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> int:
    try:
        return int(_fields(path, data)["broker"])
    except _WRONG as error:
        raise MalformedNode(path, f"names no broker: {data[:80]!r}") from error


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: the newest block that was given out, first and last id included."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        return _encode(
            {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        fields = _fields(PRODUCER_ID_BLOCK, data)
        try:
            return cls(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"]))
        except _WRONG as error:
            raise MalformedNode(PRODUCER_ID_BLOCK, f"not a block: {data[:80]!r}") from error


EMPTY_FEATURE = _encode({"version": 1, "status": 1, "features": {}})
"""`/feature` as a 2.7 controller makes it: feature versioning is on, no feature is final."""
