"""AlterReplicaLogDirs: moves replicas between the directories of a broker (KIP-113)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Message


class AlterReplicaLogDirTopic(Message):
    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Message):
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []


ALTER_REPLICA_LOG_DIRS = Api(
    34,
    "AlterReplicaLogDirs",
    "0-1",
    flexible=2,
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
    needs="ALTER on CLUSTER",
)
