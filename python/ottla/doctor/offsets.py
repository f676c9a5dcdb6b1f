"""First and last offsets of many partitions, asked of their leaders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ottla.doctor.brokers import Cluster
from ottla.kafka import CONSUMER, NO_LEADER, READ_UNCOMMITTED, TopicPartition
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


async def offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Of the partitions whose leaders can be asked. Raises OSError, Refused."""
    leaders = {
        TopicPartition(topic.name, row.partition_index): row.leader_id
        for topic in cluster.metadata.topics
        for row in topic.partitions
    }
    by_leader: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for partition in partitions:
        leader = leaders.get(partition, NO_LEADER)
        if leader in cluster.connections:
            by_leader[leader][partition.topic].append(partition.partition)
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        rows = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes],
            )
            for topic, indexes in topics.items()
        ]
        request = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=isolation_level, topics=rows)
        answer = await cluster.ask(leader, LIST_OFFSETS, request)
        found |= {
            TopicPartition(topic.name, row.partition_index): row.offset
            for topic in answer.topics
            for row in topic.partitions
            if row.error_code == 0
        }
    return found
