"""Questions about log directories, and a disk that is full."""

import contextlib
from pathlib import Path

from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k35_describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.support.client import Client, batch

REQUEST_TIMED_OUT = 7
STORAGE_ERROR = 56


def produced(client: Client, topic: str, partition: int) -> int:
    ((row,),) = [row.partitions for row in client.produce(topic, batch(b"more"), partition=partition).responses]
    return row.error_code


def metadata(client: Client, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Leader and offline replicas of each partition."""
    answer: MetadataResponse = client.call(METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 8)
    return {row.partition_index: (row.leader_id, row.offline_replicas) for row in answer.topics[0].partitions}


def described(client: Client, *topics: DescribableLogDirTopic) -> dict[str, DescribeLogDirsResult]:
    request = DescribeLogDirsRequest(topics=list(topics) or None)
    return {row.log_dir: row for row in client.call(DESCRIBE_LOG_DIRS, request, 2).results}


def produced_acks_1(client: Client, partition: int) -> int:
    ((row,),) = [row.partitions for row in client.produce("t", batch(b"x"), partition=partition, acks=1).responses]
    return row.error_code


def created(client: Client, topic: str, *, timeout_ms: int = 60_000) -> int:
    """The error of CreateTopics."""
    row = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    (answer,) = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[row], timeout_ms=timeout_ms)).topics
    return answer.error_code


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return filler
