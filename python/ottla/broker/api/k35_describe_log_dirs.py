"""DescribeLogDirs (key 35): the log directories of this broker, whether each works, and the size of each log in it
(KIP-113).

The directory of a partition that moves also has a future log (`is_future_key`), with how far it is behind. A request
without topics asks for all; a topic of the directory of which no partition was asked for is listed without any, as
Kafka does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ottla.broker.answer_memory import large_answer
from ottla.broker.freeing import Freed
from ottla.broker.replies import reply_here
from ottla.errors import StorageError
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k35_describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla._core import Log, Request
    from ottla.broker.contexts import LogContext
    from ottla.replication.data_directory import DataDirectory

#: A partition in an answer, and its topic, about.
ROW_BYTES = 64
#: The partition is not served here, so nothing can be said of how far a copy is behind.
NO_LAG = -1


async def handle(broker: LogContext, request: Request) -> None:
    version = request.api_version
    asked: DescribeLogDirsRequest = DESCRIBE_LOG_DIRS.decode_request(version, request)
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
    rows = len(broker.logs.logs) + len(broker.logs.futures)
    async with large_answer(broker, request, rows, rows * ROW_BYTES):
        await reply_here(broker, request, DESCRIBE_LOG_DIRS, await _answer(broker, wanted, slices))


async def _answer(broker: LogContext, wanted: set[TopicPartition] | None, slices: Slices) -> DescribeLogDirsResponse:
    answer = DescribeLogDirsResponse()
    for directory in broker.logs.directories:
        answer.results.append(await _describe(broker, directory, wanted, slices))
    return answer


async def _describe(
    broker: LogContext, directory: DataDirectory, wanted: set[TopicPartition] | None, slices: Slices
) -> DescribeLogDirsResult:
    """Each row is of its own moment."""
    result = DescribeLogDirsResult(log_dir=str(directory))
    if not directory.is_online:
        result.error_code = StorageError.code
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    async for log in _logs_in(broker, directory, slices):
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        if wanted is None or (log.topic, log.partition) in wanted:
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(broker, log),
                    is_future_key=broker.logs.logs.get((log.topic, log.partition)) is not log,
                )
            )
    result.topics = list(topics.values())
    return result


async def _logs_in(broker: LogContext, directory: DataDirectory, slices: Slices) -> AsyncIterator[Log]:
    for logs, homes in broker.logs.places():
        for key, home in homes:
            await slices.row()
            if home is directory and (log := logs.get(key)) is not None:
                yield log


def _lag(broker: LogContext, log: Log) -> int:
    current = broker.logs.logs.get((log.topic, log.partition))
    if current is None:
        return NO_LAG
    if current is log:
        return max(log.high_watermark - log.end_offset, 0)
    return current.end_offset - log.end_offset
