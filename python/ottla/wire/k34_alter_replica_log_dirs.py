"""AlterReplicaLogDirs: moves replicas between the directories of a broker (KIP-113).

The answer says that a move has begun; DescribeLogDirs shows how far it is.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Message


class AlterReplicaLogDirTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Message):
    """A directory, and the replicas that are to move there."""

    #: One of the broker's log.dirs, absolute.
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Message):
    """Moves of replicas of the broker that is asked."""

    #: By directory.
    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    #: REPLICA_NOT_AVAILABLE if the broker has no such replica: it remembers the directory, and makes it there when the
    #: replica comes.
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Message):
    """Partitions of one topic."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Message):
    """The results."""

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
