"""DescribeLogDirs: how large every replica is, and in which directory (KIP-113). Null asks for all topics."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class DescribableLogDirTopic(Message):
    topic: str = ""
    partition_index: list[Int32] = []


class DescribeLogDirsRequest(Message):
    topics: Annotated[list[DescribableLogDirTopic] | None, V(nullable="0+")] = []


class DescribeLogDirsPartition(Message):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Message):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []


class DescribeLogDirsResponse(Message):
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
