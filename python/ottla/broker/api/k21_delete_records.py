"""DeleteRecords (key 21): moves the start of logs up, so that nothing before an offset is read again (KIP-107).

Offset -1 is the high watermark; beyond that is OFFSET_OUT_OF_RANGE. A topic whose `cleanup.policy` lacks `delete` keeps
its records (POLICY_VIOLATION), and so do internal topics (INVALID_TOPIC_EXCEPTION). Files go with the next retention
check; what the answer promises is that no restart brings the records back, so `log-start-offset-checkpoint` is written
first. (Kafka writes it up to a minute later.) With several replicas the answer waits until each of them that is alive
has moved its start, at most for the request's timeout. A partition that is named twice goes where it was told last,
and is answered once.

Version 1 tells the throttle time, 2 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import (
    InvalidTopic,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    error,
)
from ottla.kafka import INTERNAL_TOPICS, TopicPartition
from ottla.replication.leading import low_watermark
from ottla.slices import Slices
from ottla.wire.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms
    from ottla.replication.partition import Partition

    DeleteRecords: TypeAlias = "Call[DeleteRecordsRequest, DeleteRecordsResponse]"

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


async def handle(call: DeleteRecords, rooms: LogRooms) -> None:
    asked = call.message
    targets: dict[TopicPartition, int] = {}
    slices = Slices()
    for asked_topic in asked.topics:
        await slices.row()
        for asked_row in asked_topic.partitions:
            await slices.row()
            targets[TopicPartition(asked_topic.name, asked_row.partition_index)] = asked_row.offset
    topics: dict[str, DeleteRecordsTopicResult] = {}
    moves: list[_Move] = []
    rights = call.rights
    for (name, index), offset in targets.items():
        await slices.row()
        row = DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_LOW_WATERMARK)
        try:
            if rights is not None:
                rights.check(Operation.DELETE, Resource.TOPIC, name)
            partition = _deletable(rooms, name, index)
            target = partition.log.high_watermark if offset == HIGH_WATERMARK else offset
            if target < 0:
                raise OffsetOutOfRange
            moves.append(_Move(partition, target, row))
        except KafkaError as refused:
            row.error_code = refused.code
        topics.setdefault(name, DeleteRecordsTopicResult(name=name)).partitions.append(row)
    if moves:
        await _move(rooms, moves)
    moving = [move for move in moves if move.row.error_code == 0]
    waiting = _Waiting(call, rooms, list(topics.values()), moving)
    waiting.check()
    if not waiting.done:
        rooms.deadlines.add(max(asked.timeout_ms, 0), waiting)


def _deletable(rooms: LogRooms, topic: str, index: int) -> Partition:
    """The partition, if its records may be deleted here. Raises KafkaError."""
    if index not in rooms.metadata.topics.get(topic, {}):
        raise UnknownTopicOrPartition
    if topic in INTERNAL_TOPICS:
        raise InvalidTopic
    partition = rooms.replicas.partitions.get((topic, index))
    if partition is None:
        raise NotLeaderOrFollower
    if code := partition.leader_error(-1):
        raise error(code)
    if not partition.may_delete:
        raise PolicyViolation
    return partition


class _Move:
    """One partition's part: where its start is to be."""

    __slots__ = ("partition", "row", "target", "term")

    def __init__(self, partition: Partition, target: int, row: DeleteRecordsPartitionResult) -> None:
        self.partition = partition
        self.term = partition.term
        self.target = target
        self.row = row


async def _move(rooms: LogRooms, moves: list[_Move]) -> None:
    """Moves the starts and makes that durable; an error stands in the row of its partition."""
    errors = await rooms.logs.delete_records([(move.partition.log, move.target) for move in moves])
    for move, failure in zip(moves, errors, strict=True):
        move.partition.check_log_start()
        if failure is not None:
            move.row.error_code = failure.code
            if isinstance(failure, StorageError):
                rooms.replicas.storage_error(move.partition, failure)


class _Waiting:
    """The request while replicas are behind: it waits for the least start of those that are alive."""

    purgatory = "DeleteRecords"

    def __init__(
        self, call: DeleteRecords, rooms: LogRooms, topics: list[DeleteRecordsTopicResult], moves: list[_Move]
    ) -> None:
        self._rooms = rooms
        self._call = call
        self._topics = topics
        self._moves = moves
        self._waiting = moves
        self.done = False
        for move in moves:
            move.partition.park_deletion(self)

    def advanced(self, partition: Partition) -> None:
        self.check()

    def check(self) -> None:
        """Answers if every partition has got there, or cannot any more."""
        if self.done:
            return
        self._waiting = [move for move in self._waiting if not self._is_settled(move)]
        if not self._waiting:
            self._answer()

    def _is_settled(self, move: _Move) -> bool:
        partition, row = move.partition, move.row
        if row.error_code:
            return True
        if not partition.is_leader or partition.term != move.term:
            row.error_code, row.low_watermark = NotLeaderOrFollower.code, NO_LOW_WATERMARK
            return True
        row.low_watermark = low_watermark(partition, self._rooms.metadata.brokers)
        return row.low_watermark >= move.target

    def expire(self) -> None:
        self.check()
        if not self.done:
            for move in self._waiting:
                move.row.error_code = RequestTimedOut.code
            self._answer()

    def _answer(self) -> None:
        self.done = True
        for move in self._moves:
            move.partition.waiting_fetches.unpark(self)
        response = DeleteRecordsResponse(topics=self._topics)
        self._call.reply(response)
