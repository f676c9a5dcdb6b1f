"""About how many bytes a record takes in each partition of a broker, so that tasks are cut by bytes, not by records.

A broker tells how large a replica is (DescribeLogDirs, KIP-113) and where it begins and ends; an offset's share of
that is good enough. It is asked at most once a minute in a process, since a stream plans a batch every second or so. A
broker that does not say, because it is old or does not let us ask, leaves a guess.
"""

import time
from collections.abc import Collection
from contextlib import suppress

from ottla.client import Cluster, TopicPartition
from ottla.client.offsets import list_offsets
from ottla.errors import KafkaError, ProtocolError
from ottla.kafka import EARLIEST, LATEST
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS, DescribableLogDirTopic, DescribeLogDirsRequest

RECORD_BYTES_GUESS = 256.0
KEEP_SECONDS = 60.0

_known: dict[tuple[str, TopicPartition], tuple[float, float]] = {}


async def record_bytes(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
    """Bytes per offset of each partition."""
    where = repr(cluster.bootstrap)
    now = time.monotonic()
    old = [each for each in partitions if now - _known.get((where, each), (-KEEP_SECONDS, 0))[0] >= KEEP_SECONDS]
    if old:
        found: dict[TopicPartition, float] = {}
        with suppress(KafkaError, ProtocolError, OSError):
            found = await _ask(cluster, old)
        _known.update({(where, each): (now, found.get(each, RECORD_BYTES_GUESS)) for each in old})
    return {each: _known[where, each][1] for each in partitions}


async def _ask(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
    first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    last = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    found: dict[TopicPartition, float] = {}
    for address, led in (await cluster.by_leader(partitions)).items():
        numbers: dict[str, list[int]] = {}
        for topic, partition in led:
            numbers.setdefault(topic, []).append(partition)
        connection = await cluster.connection(address)
        request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(*each) for each in numbers.items()])
        answer = await connection.call(DESCRIBE_LOG_DIRS, request, timeout_ms=cluster.timeout_ms)
        for result in answer.results:
            for topic_sizes in result.topics:
                for size in topic_sizes.partitions:
                    each = TopicPartition(topic_sizes.name, size.partition_index)
                    offsets = last[each].offset - first[each].offset if each in first else 0
                    if offsets > 0 and size.partition_size > 0 and not size.is_future_key:
                        found[each] = size.partition_size / offsets
    return found
