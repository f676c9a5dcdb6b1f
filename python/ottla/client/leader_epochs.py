"""Whether what was read of a partition is still what its leader has (KIP-320).

A leader that was not in sync may lack records that others read. Each batch tells the epoch of the leader that wrote it;
when a partition has a new leader, that one is asked where this epoch ends in its log. If that is before the position,
records were lost that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, LogTruncated, error
from ottla.kafka import CONSUMER, NO_EPOCH, TopicPartition
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.connection import Connection
    from ottla.wire.k03_metadata import MetadataResponseTopic

#: The first version that consumers may ask without a right to the whole cluster.
ASKED_SINCE = 3


class LeaderEpochs:
    """The epochs of what a consumer has read, and of the leaders that it reads from."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        #: The epoch of the last batch before each position; absent where none was read.
        self.read: dict[TopicPartition, int] = {}
        self._checked: dict[TopicPartition, int] = {}
        self._leaders: dict[str, tuple[MetadataResponseTopic, dict[int, int]]] = {}

    def forget(self, partition: TopicPartition) -> None:
        """The position is another one, or none."""
        self.read.pop(partition, None)
        self._checked.pop(partition, None)

    def of_leader(self, partition: TopicPartition) -> int:
        """The epoch in which the partition's leader leads, as metadata say; -1 where they do not."""
        topic = self.cluster.metadata.topics.get(partition.topic)
        if topic is None:
            return NO_EPOCH
        known, epochs = self._leaders.get(partition.topic, (None, {}))
        if known is not topic:
            epochs = {each.partition_index: each.leader_epoch for each in topic.partitions}
            self._leaders[partition.topic] = topic, epochs
        return epochs.get(partition.partition, NO_EPOCH)

    async def check(
        self, connection: Connection, positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, KafkaError]]:
        """Asks the leader of these partitions about those that it leads since they were last asked about. Gives the
        partitions whose log parts there from what was read before the position: where (-1: it does not know), and the
        epoch before that; and the errors of partitions about which it cannot say.

        Raises:
            KafkaError, OSError, RemoteProtocolError: the leader cannot be asked.
        """
        asked = []
        for partition in positions:
            epoch = self.of_leader(partition)
            if epoch == NO_EPOCH or self._checked.get(partition) == epoch:
                continue
            if partition in self.read:
                asked.append(partition)
            else:
                self._checked[partition] = epoch
        return await self._ask(connection, asked, positions) if asked else ({}, {})

    async def _ask(
        self, connection: Connection, asked: list[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, KafkaError]]:
        _, highest = (connection.protocol.versions or {}).get(OFFSET_FOR_LEADER_EPOCH.key, (0, 0))
        leading = {partition: self.of_leader(partition) for partition in asked}
        if highest < ASKED_SINCE:
            self._checked |= leading
            return {}, {}
        topics: dict[str, list[OffsetForLeaderPartition]] = {}
        for partition in asked:
            row = OffsetForLeaderPartition(partition.partition, leading[partition], self.read[partition])
            topics.setdefault(partition.topic, []).append(row)
        request = OffsetForLeaderEpochRequest(CONSUMER, [OffsetForLeaderTopic(*each) for each in topics.items()])
        answer = await connection.call(OFFSET_FOR_LEADER_EPOCH, request, timeout_ms=self.cluster.timeout_ms)
        parted: dict[TopicPartition, tuple[int, int]] = {}
        problems: dict[TopicPartition, KafkaError] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    problems[partition] = error(each.error_code, str(partition))
                    continue
                self._checked[partition] = leading[partition]
                if each.leader_epoch == NO_EPOCH or each.end_offset < positions[partition]:
                    parted[partition] = each.end_offset, each.leader_epoch
        return parted, problems

    def truncated(self, partition: TopicPartition, position: int, end: int) -> LogTruncated:
        """The error of a partition that `check` found."""
        self.forget(partition)
        where = f"at offset {end}" if end >= 0 else "somewhere"
        return LogTruncated(f"{partition}: its leader's log parts {where} from what was read up to offset {position}")
