"""AlterReplicaLogDirs (key 34): moves replicas of this broker into other log directories (KIP-113).

The answer says that a move has begun, not that it is done: DescribeLogDirs shows how far it is. A partition that this
broker does not have yet is answered REPLICA_NOT_AVAILABLE, and will be made in that directory, which is how
kafka-reassign-partitions brings a new replica into the right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import InvalidTopic, KafkaError
from ottla.kafka import TopicPartition
from ottla.logging_setup import of_partition
from ottla.slices import Slices
from ottla.wire.k34_alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import LogContext

#: What a future folder's name has besides the topic and the partition: `.`, 32 hex digits, `-future`, and a `-`.
FUTURE_NAME_BYTES = 1 + 32 + len("-future") + 1
FILE_NAME_BYTES_MAX = 255


async def handle(broker: LogContext, request: Request) -> None:
    version = request.api_version
    asked: AlterReplicaLogDirsRequest = ALTER_REPLICA_LOG_DIRS.decode_request(version, request)
    # One that is named twice goes where it was told last, as in Kafka.
    paths: dict[TopicPartition, str] = {}
    slices = Slices()
    for directory in asked.dirs:
        for topic in directory.topics:
            await slices.row()
            for index in topic.partitions:
                await slices.row()
                paths[TopicPartition(topic.name, index)] = directory.path
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in paths.items():
        await slices.row()
        row = AlterReplicaLogDirPartitionResult(index, await _move(broker, name, index, path))
        topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name)).partitions.append(row)
    answer = AlterReplicaLogDirsResponse(results=list(topics.values()))
    reply(broker, request, ALTER_REPLICA_LOG_DIRS, answer)


async def _move(broker: LogContext, topic: str, index: int, path: str) -> int:
    try:
        if len(topic) + len(str(index)) + FUTURE_NAME_BYTES > FILE_NAME_BYTES_MAX:
            raise InvalidTopic(f"the name of topic {topic} is too long for a move")
        await broker.replicas.move(topic, index, broker.logs.directories.at(path))
    except KafkaError as error:
        broker.log.warning(
            "%s-%d is not moved into %s: %s", topic, index, path, error, extra=of_partition(topic, index)
        )
        return error.code
    return 0
