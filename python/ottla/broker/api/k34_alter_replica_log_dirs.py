"""AlterReplicaLogDirs (key 34): moves replicas of this broker into other log directories (KIP-113).

The answer says that a move has begun, not that it is done: DescribeLogDirs shows how far it is. A partition that this
broker does not have yet is answered REPLICA_NOT_AVAILABLE, and will be made in that directory, which is how
kafka-reassign-partitions brings a new replica into the right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InvalidTopic, KafkaError
from ottla.kafka import TopicPartition
from ottla.logging_setup import of_partition
from ottla.slices import Slices
from ottla.wire.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import LogRooms

    AlterReplicaLogDirs: TypeAlias = "Call[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse]"

#: The length of a future folder's name besides the topic and the partition: `.`, 32 hex digits, `-future`, and a `-`.
FUTURE_NAME_BYTES = 1 + 32 + len("-future") + 1
FILE_NAME_BYTES_MAX = 255


async def handle(call: AlterReplicaLogDirs, rooms: LogRooms) -> None:
    asked = call.message
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
        row = AlterReplicaLogDirPartitionResult(index, await _move(rooms, name, index, path))
        topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name)).partitions.append(row)
    answer = AlterReplicaLogDirsResponse(results=list(topics.values()))
    call.reply(answer)


async def _move(rooms: LogRooms, topic: str, index: int, path: str) -> int:
    try:
        if len(topic) + len(str(index)) + FUTURE_NAME_BYTES > FILE_NAME_BYTES_MAX:
            raise InvalidTopic(f"the name of topic {topic} is too long for a move")
        await rooms.replicas.move(topic, index, rooms.logs.directories.at(path))
    except KafkaError as error:
        rooms.log.warning("%s-%d is not moved into %s: %s", topic, index, path, error, extra=of_partition(topic, index))
        return error.code
    return 0
