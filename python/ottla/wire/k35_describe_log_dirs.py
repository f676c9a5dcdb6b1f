"""DescribeLogDirs: how large the replicas of a broker are, and in which directory (KIP-113)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class DescribableLogDirTopic(Message):
    """Partitions of one topic."""

    topic: str = ""
    #: Several, despite its name.
    partition_index: list[Int32] = []


class DescribeLogDirsRequest(Message):
    """Replicas of the broker that is asked."""

    #: Null asks for all.
    topics: Annotated[list[DescribableLogDirTopic] | None, V(nullable="0+")] = []


class DescribeLogDirsPartition(Message):
    """A replica in this directory."""

    partition_index: Int32 = 0
    #: Bytes of its segments, without indexes.
    partition_size: Int64 = 0
    #: How many offsets its end is behind the high watermark, or for a future replica behind the current one; -1 if
    #: there is no current one.
    offset_lag: Int64 = 0
    #: True: a copy on its way into this directory, which takes the place of the current one when it has all.
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    """Partitions of one topic."""

    name: str = ""
    #: Without any, if the topic is in the directory and none of these was asked for.
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Message):
    """A directory."""

    #: KAFKA_STORAGE_ERROR if it does not work; then there are no rows.
    error_code: Int16 = 0
    #: Its absolute path.
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []


class DescribeLogDirsResponse(Message):
    """All directories of the broker."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeLogDirsResult] = []


DESCRIBE_LOG_DIRS = Api(
    35,
    "DescribeLogDirs",
    "0-2",
    flexible=2,
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    needs="DESCRIBE on CLUSTER",
)
