"""What a follower asks its leader besides records: where logs start and end, and where leader epochs end. Many
partitions at once: when a broker comes back after a long time, all of its logs may end where no leader's begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.coordination.znodes import INT32_MAX
from ottla.errors import KafkaError, RemoteProtocolError, error
from ottla.kafka import EARLIEST, LATEST, PartitionKey
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from ottla.peers import Peers

#: Those of every inter-broker protocol from 2.3 to 2.7.
LIST_OFFSETS_VERSION = 5
EPOCHS_VERSION = 3
NEEDED = ((LIST_OFFSETS, LIST_OFFSETS_VERSION), (OFFSET_FOR_LEADER_EPOCH, EPOCHS_VERSION))
T = TypeVar("T")

#: In one request: so that neither side's loop stands still for it.
ROWS_MAX = 1000
#: The epoch that is asked for to hear where a log ends that nobody leads.
ANY_EPOCH = INT32_MAX


class LogRange(NamedTuple):
    """Where a leader's log starts and ends."""

    start: int
    end: int


class EpochEnd(NamedTuple):
    """The largest epoch of a leader's log that is at most the one asked for, and where it ends; -1 for what the leader
    does not know."""

    epoch: int
    offset: int


class Questions:
    """What the replicas on broker `broker_id` ask. All methods raise OSError if the leader is out of reach, and
    ProtocolError if it answers something else.
    """

    def __init__(self, broker_id: int, peers: Peers) -> None:
        self._broker_id = broker_id
        self._peers = peers

    async def log_ranges(
        self, leader: int, leader_epochs: Mapping[PartitionKey, int]
    ) -> dict[PartitionKey, LogRange | KafkaError]:
        """The ranges of partitions' logs at their leader, which is asked under a leader epoch for each."""
        found: dict[PartitionKey, LogRange | KafkaError] = {}
        for some in _batches(leader_epochs.items()):
            ends = await self._offsets(leader, some, LATEST)
            starts = await self._offsets(leader, some, EARLIEST)
            for key, end in ends.items():
                start = starts[key]
                if isinstance(end, KafkaError):
                    found[key] = end
                else:
                    found[key] = start if isinstance(start, KafkaError) else LogRange(start, end)
        return found

    async def _offsets(
        self, leader: int, rows: Sequence[tuple[PartitionKey, int]], timestamp: int
    ) -> dict[PartitionKey, int | KafkaError]:
        topics: dict[str, ListOffsetsTopic] = {}
        for (topic, index), epoch in rows:
            row = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
            topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(row)
        asked = ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))
        answer = await self._peers.call(leader, LIST_OFFSETS, asked, LIST_OFFSETS_VERSION)
        answered = _rows(answer, (key for key, _ in rows))
        return {key: error(row.error_code) if row.error_code else row.offset for key, row in answered.items()}

    async def epoch_ends(
        self, leader: int, epochs: Mapping[PartitionKey, tuple[int, int]]
    ) -> dict[PartitionKey, EpochEnd | KafkaError]:
        """Where the last epochs of followers' logs end at their leader. `epochs` has, for each partition, the leader
        epoch under which it is asked, and the epoch that is asked for.
        """
        found: dict[PartitionKey, EpochEnd | KafkaError] = {}
        for some in _batches(epochs.items()):
            topics: dict[str, OffsetForLeaderTopic] = {}
            for (topic, index), (current, epoch) in some:
                asked_row = OffsetForLeaderPartition(
                    partition_index=index, current_leader_epoch=current, leader_epoch=epoch
                )
                topics.setdefault(topic, OffsetForLeaderTopic(name=topic)).partitions.append(asked_row)
            asked = OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=list(topics.values()))
            answer = await self._peers.call(leader, OFFSET_FOR_LEADER_EPOCH, asked, EPOCHS_VERSION)
            for key, row in _rows(answer, (key for key, _ in some)).items():
                found[key] = error(row.error_code) if row.error_code else EpochEnd(row.leader_epoch, row.end_offset)
        return found


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    listed = list(rows)
    return (listed[start : start + ROWS_MAX] for start in range(0, len(listed), ROWS_MAX))


def _rows(answer: Any, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Any]:
    """The rows of an answer, for exactly these partitions. Raises RemoteProtocolError if one is missing."""
    answered = {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}
    try:
        return {key: answered[key] for key in keys}
    except KeyError as missing:
        raise RemoteProtocolError(f"the answer has no row for {'-'.join(map(str, missing.args[0]))}") from None
