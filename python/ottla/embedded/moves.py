"""Leaders and coordinators of a cluster inside a program that move because a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.cluster_admin import ClusterAdmin
from ottla.client.coordinators import find_coordinator
from ottla.coordination.znodes import PartitionState
from ottla.errors import ElectionNotNeeded, KafkaError, UnknownTopicOrPartition
from ottla.kafka import (
    COORDINATOR_OF_GROUP,
    COORDINATOR_OF_TRANSACTION,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicPartition,
)
from ottla.replication.internal_topic import partition_for


class Coordinated(NamedTuple):
    """A group or a transactional id, and the topic in which its coordinator keeps it."""

    key: str
    kind: int
    topic: str

    @classmethod
    def of(cls, group: str | None, transactional_id: str | None) -> Coordinated:
        """Raises ValueError unless one of both is given."""
        if group is not None and transactional_id is None:
            return cls(group, COORDINATOR_OF_GROUP, OFFSETS_TOPIC)
        if transactional_id is not None and group is None:
            return cls(transactional_id, COORDINATOR_OF_TRANSACTION, TRANSACTIONS_TOPIC)
        raise ValueError("whose coordinator is meant? say group or transactional_id, one of both")


async def coordinating(cluster: Cluster, what: Coordinated) -> TopicPartition:
    """The partition whose leader is the coordinator. Its topic is created if need be.

    Raises:
        KafkaError: there is no coordinator, and none comes.
    """
    await cluster.retry(lambda: find_coordinator(cluster, what.key, what.kind))
    partitions = await cluster.retry(lambda: cluster.partitions(what.topic))
    return TopicPartition(what.topic, partition_for(what.key, len(partitions)))


def next_leader(partition: TopicPartition, state: PartitionState, to: int | None, runs: Callable[[int], bool]) -> int:
    """The id of the broker that is to lead: `to`, or of those that can the one behind the leader.

    Raises:
        ValueError: it cannot lead, or nobody else can.
    """
    if to == state.leader:
        return to
    able = [each for each in sorted(state.isr) if each != state.leader and runs(each)]
    if to is None and able:
        return next((each for each in able if each > state.leader), able[0])
    if to is None or to not in able:
        which = "another broker" if to is None else f"broker {to}"
        others = (
            f"in sync and running are {', '.join(map(str, able))}" if able else "no other one is in sync and running"
        )
        raise ValueError(f"{partition.topic}-{partition.partition} cannot move to {which}: {others}")
    return to


async def prefer(cluster: Cluster, partition: TopicPartition, to: int) -> None:
    """Makes one of the replicas the preferred leader, and has that one elected. It may take a moment more until it
    leads, or another call.

    Raises:
        UnknownTopicOrPartition, KafkaError: the controller refuses.
    """
    admin = ClusterAdmin(cluster)
    topics = {topic.name: topic for topic in (await admin.overview()).topics}
    rows = topics[partition.topic].partitions if partition.topic in topics else ()
    row = next((row for row in rows if row.number == partition.partition), None)
    if row is None:
        raise UnknownTopicOrPartition(f"there is no {partition.topic}-{partition.partition}")
    if row.replicas[:1] != (to,):
        refused = await admin.reassign({partition: (to, *(each for each in row.replicas if each != to))})
        if partition in refused:
            raise refused[partition]
    result: KafkaError | None = (await admin.elect([partition]))[partition]
    if result is not None and not (result.retriable or isinstance(result, ElectionNotNeeded)):
        raise result
