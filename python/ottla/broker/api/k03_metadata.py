"""Metadata (key 3): the brokers, and for topics their partitions' leaders; unknown topics are created if they may be.

Version 0: no topics means all. 1: null means all, an empty list none; controller. 4: creation can be forbidden. 5:
offline replicas. 6: a leader without the client's listener is LISTENER_NOT_FOUND. 7: leader epochs. 8: authorized
operations (KIP-430). 9: flexible.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.authorization.authorizer import ALL_BITS
from ottla.broker.metadata_cache import BrokerMetadata, PartitionMetadata
from ottla.errors import (
    KafkaError,
    LeaderNotAvailable,
    ListenerNotFound,
    ReplicaNotAvailable,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.kafka import INTERNAL_TOPICS
from ottla.slices import Slices
from ottla.wire.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import ClusterRooms

    Metadata: TypeAlias = "Call[MetadataRequest, MetadataResponse]"

#: A topic and a partition in an answer, about: lengths, numbers and a few replicas.
TOPIC_BYTES, PARTITION_BYTES = 16, 48
#: Partitions whose rows are made in one go: less than a millisecond.
PARTITIONS_AT_ONCE = 256


async def handle(call: Metadata, rooms: ClusterRooms) -> None:
    version = call.version
    asked = call.message
    cache = rooms.metadata
    if not cache.is_known:
        await cache.known()
    await cache.certain()
    rights, slices = call.rights, Slices()
    names: dict[str, None] | None = None
    missing: list[str] = []
    errors: dict[str, int] = {}
    if asked.topics is not None and (version > 0 or asked.topics):
        names = {}
        for topic in asked.topics:
            await slices.row()
            if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, topic.name):
                # Nobody is told whether it is there.
                errors[topic.name] = TopicAuthorizationFailed.code
            elif topic.name not in cache.topics and topic.name not in names:
                missing.append(topic.name)
            names[topic.name] = None
    if missing:
        allowed = asked.allow_auto_topic_creation and rooms.config.get_bool("auto.create.topics.enable")
        # As in Kafka, an internal topic is made for whoever asks for it, whatever the settings say.
        for name in missing:
            await slices.row()
            if allowed and rights is not None and not _may_create(rights, name):
                errors[name] = TopicAuthorizationFailed.code
            elif allowed or name in INTERNAL_TOPICS:
                errors[name] = await _create(rooms, name)
            else:
                errors[name] = UnknownTopicOrPartition.code
    # All rows are of one moment, as the brokers are: what is told meanwhile comes with the next answer.
    brokers, away = dict(cache.brokers), [away.broker for away in cache.away.values()]
    snapshot = cache.topics.copy()
    told: dict[str, dict[int, PartitionMetadata]] = {}
    size_bytes = rows = 0
    is_shown = rights.decider(Operation.DESCRIBE, Resource.TOPIC) if rights is not None and names is None else None
    for name in snapshot if names is None else names:
        if slices.is_over():
            await slices.end()
        if is_shown is not None and not is_shown(name):
            continue
        partitions = told[name] = {} if name in errors else snapshot.get(name, {})
        size_bytes += TOPIC_BYTES + len(name) + PARTITION_BYTES * len(partitions)
        rows += 1 + len(partitions)
    async with call.large_answer(rows, size_bytes):
        answer = _answer(call, rooms, asked, brokers, away, errors, told)
        await call.reply_here(await answer)
    call.leave([told, errors, missing, names or {}])


async def _answer(
    call: Metadata,
    rooms: ClusterRooms,
    asked: MetadataRequest,
    brokers: Mapping[int, BrokerMetadata],
    away: Iterable[BrokerMetadata],
    errors: Mapping[str, int],
    told: Mapping[str, dict[int, PartitionMetadata]],
) -> MetadataResponse:
    """`brokers`: those that are alive. `away`: others that are named. `told`: the partitions of each topic."""
    reachable = {other.broker_id for other in brokers.values() if rooms.endpoint(other, call.session) is not None}
    answer = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=other.broker_id, host=endpoint[0], port=endpoint[1], rack=other.rack)
            for other in (*brokers.values(), *away)
            if (endpoint := rooms.endpoint(other, call.session)) is not None
        ],
        cluster_id=rooms.cluster_id,
        controller_id=rooms.metadata.controller_id,
    )
    rights = call.rights
    if asked.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = cluster_operations(rights)
    slices = Slices()
    for name, partitions in told.items():
        if slices.is_over():
            await slices.end()
        error = errors.get(name, 0)
        is_hidden = error == TopicAuthorizationFailed.code
        topic = MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=name in INTERNAL_TOPICS and not is_hidden,
        )
        if asked.include_topic_authorized_operations and not is_hidden:
            topic.topic_authorized_operations = (
                ALL_BITS[Resource.TOPIC] if rights is None else rights.bits(Resource.TOPIC, name)
            )
        answer.topics.append(topic)
        ordered = sorted(partitions.items())
        for start in range(0, len(ordered), PARTITIONS_AT_ONCE):
            some = ordered[start : start + PARTITIONS_AT_ONCE]
            topic.partitions += _partitions(call.version, brokers, reachable, some)
            if slices.is_over():
                await slices.end()
    return answer


def _partitions(
    version: int,
    brokers: Mapping[int, BrokerMetadata],
    reachable: set[int],
    partitions: list[tuple[int, PartitionMetadata]],
) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            error_code=_error(partition, brokers.keys(), reachable, version),
            partition_index=index,
            leader_id=partition.leader if partition.leader in reachable else -1,
            leader_epoch=partition.leader_epoch,
            # Version 0 leaves unreachable replicas out and says so by an error; later ones list what is assigned.
            replica_nodes=_listed(partition.replicas, reachable, version),
            isr_nodes=_listed(partition.isr, reachable, version),
            offline_replicas=list(partition.offline_replicas),
        )
        for index, partition in partitions
    ]


def _listed(replicas: tuple[int, ...], reachable: set[int], version: int) -> list[int]:
    return [replica for replica in replicas if replica in reachable] if version == 0 else list(replicas)


def _error(partition: PartitionMetadata, alive: Container[int], reachable: set[int], version: int) -> int:
    if partition.leader not in reachable:
        return ListenerNotFound.code if version >= 6 and partition.leader in alive else LeaderNotAvailable.code
    if version == 0 and not reachable.issuperset(partition.replicas):
        return ReplicaNotAvailable.code
    return 0


def cluster_operations(rights: Rights | None) -> int:
    """The rights of a client on the cluster, as bits; none for one that may not describe it."""
    if rights is None:
        return ALL_BITS[Resource.CLUSTER]
    return rights.bits(Resource.CLUSTER) if rights.may(Operation.DESCRIBE, Resource.CLUSTER) else 0


def _may_create(rights: Rights, topic: str) -> bool:
    if rights.might(Operation.CREATE, Resource.CLUSTER):
        return True
    return rights.may(Operation.CREATE, Resource.TOPIC, topic)


async def _create(rooms: ClusterRooms, name: str) -> int:
    """Creates the topic with the broker's defaults; the client asks again until it has a leader."""
    try:
        for internal in (rooms.groups.topic, rooms.transactions.topic):
            if name == internal.name:
                await internal.ensure()
                break
        else:
            await rooms.admin.create_topic(name)
    except TopicAlreadyExists:
        pass  # another broker, or another client, was first
    except KafkaError as error:
        return error.code
    return LeaderNotAvailable.code
