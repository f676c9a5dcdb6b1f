"""DescribeLogDirs (key 35): the log directories of this broker, whether each works, and the size of each log in it
(KIP-113).

The directory of a partition that moves also has a future log (`is_future_key`), with how far it is behind. A request
without topics asks for all; a topic of the directory of which no partition was asked for is listed without any, as
Kafka does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.freeing import Freed
from ottla.errors import StorageError
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import Log
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms
    from ottla.replication.data_directory import DataDirectory

    DescribeLogDirs: TypeAlias = "Call[DescribeLogDirsRequest, DescribeLogDirsResponse]"

#: A partition in an answer, and its topic, about.
ROW_BYTES = 64
#: The partition is not served here, so nothing can be said of how far a copy is behind.
NO_LAG = -1


async def handle(call: DescribeLogDirs, rooms: LogRooms) -> None:
    asked = call.message
    if (rights := call.rights) is not None and not rights.may(Operation.DESCRIBE, Resource.CLUSTER):
        # As Kafka does, which has no place for an error of the whole request.
        call.reply(DescribeLogDirsResponse())
        return
    mine = Freed()
    wanted: set[TopicPartition] | None = None
    slices = Slices()
    if asked.topics is not None:
        wanted = mine.add(set[TopicPartition]())
        for topic in asked.topics:
            await slices.row()
            for index in topic.partition_index:
                await slices.row()
                wanted.add(TopicPartition(topic.topic, index))
    rows = len(rooms.logs.logs) + len(rooms.logs.futures)
    async with call.large_answer(rows, rows * ROW_BYTES):
        await call.reply_here(await _answer(rooms, wanted, slices))


async def _answer(rooms: LogRooms, wanted: set[TopicPartition] | None, slices: Slices) -> DescribeLogDirsResponse:
    answer = DescribeLogDirsResponse()
    for directory in rooms.logs.directories:
        answer.results.append(await _describe(rooms, directory, wanted, slices))
    return answer


async def _describe(
    rooms: LogRooms, directory: DataDirectory, wanted: set[TopicPartition] | None, slices: Slices
) -> DescribeLogDirsResult:
    """Each row is of its own moment."""
    result = DescribeLogDirsResult(log_dir=str(directory))
    if not directory.is_online:
        result.error_code = StorageError.code
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    async for log in _logs_in(rooms, directory, slices):
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        if wanted is None or (log.topic, log.partition) in wanted:
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(rooms, log),
                    is_future_key=rooms.logs.logs.get((log.topic, log.partition)) is not log,
                )
            )
    result.topics = list(topics.values())
    return result


async def _logs_in(rooms: LogRooms, directory: DataDirectory, slices: Slices) -> AsyncIterator[Log]:
    for logs, homes in rooms.logs.places():
        for key, home in homes:
            await slices.row()
            if home is directory and (log := logs.get(key)) is not None:
                yield log


def _lag(rooms: LogRooms, log: Log) -> int:
    current = rooms.logs.logs.get((log.topic, log.partition))
    if current is None:
        return NO_LAG
    if current is log:
        return max(log.high_watermark - log.end_offset, 0)
    return current.end_offset - log.end_offset
