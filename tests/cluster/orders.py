"""Orders to move replicas, and where replicas are."""

from collections.abc import Mapping

from ottla.errors import error
from ottla.kafka import TopicPartition
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.cluster import asking
from tests.cluster.stand import Cluster
from tests.support.waiting import eventually

Targets = Mapping[TopicPartition, list[int] | None]
#: The errors that an order may meet, and is repeated for: another controller, or one that is not known yet.
MOVED = {"NOT_CONTROLLER"}


def order(cluster: Cluster, targets: Targets) -> dict[TopicPartition, str]:
    """Gives the controller an order; returns its answer for each partition."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for name, replicas in targets.items():
        row = ReassignablePartition(partition_index=name.partition, replicas=replicas)
        topics.setdefault(name.topic, []).append(row)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name=topic, partitions=rows) for topic, rows in topics.items()]
    )

    def ask() -> dict[TopicPartition, str] | None:
        try:
            member = cluster.broker(cluster.observer.controller()[0])
            with asking.client(cluster, member, timeout_ms=5_000) as client:
                answer = client.call(ALTER_PARTITION_REASSIGNMENTS, request)
        except (OSError, LookupError):
            return None
        if asking.name_of(answer.error_code) in MOVED:
            return None
        assert answer.error_code == 0, error(answer.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): asking.name_of(row.error_code)
            for topic in answer.responses
            for row in topic.partitions
        }

    return eventually("a controller takes the order", ask)


def assigned(cluster: Cluster, names: Targets) -> dict[TopicPartition, list[int]]:
    observer = cluster.observer
    return {name: observer.assignment(name.topic)[name.partition] for name in names}
