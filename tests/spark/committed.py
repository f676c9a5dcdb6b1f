"""What readers of committed records find, by somebody else's client."""

import time
from collections import Counter

import confluent_kafka as ck
import trio

from ottla.client import LATEST, Cluster, TopicPartition
from ottla.client.offsets import list_offsets

LSO_SECONDS_MAX = 10.0


def ends(bootstrap: str, topic: str, *, committed: bool) -> dict[int, int]:
    """Of each partition the last stable offset, or else the high watermark."""

    async def ask() -> dict[int, int]:
        async with Cluster(bootstrap) as cluster:
            asked = {TopicPartition(topic, number): LATEST for number in await cluster.partitions(topic)}
            found = await list_offsets(cluster, asked, read_committed=committed)
            return {partition.partition: each.offset for partition, each in found.items()}

    return trio.run(ask)


def messages(bootstrap: str, topic: str) -> list[ck.Message]:
    """All committed records, once the last stable offset has reached the high watermark in every partition; asserts
    that this takes no longer than `LSO_SECONDS_MAX`.
    """
    deadline = time.monotonic() + LSO_SECONDS_MAX
    while (high := ends(bootstrap, topic, committed=False)) != (stable := ends(bootstrap, topic, committed=True)):
        assert time.monotonic() < deadline, f"{topic}: transactions are open: {stable} of {high}"
    client = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "sink-tests",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    client.assign([ck.TopicPartition(topic, number, 0) for number in high])
    found, left = [], set(high)
    try:
        while left:
            message = client.poll(30)
            assert message is not None, f"{topic}: {left} of {high}"
            problem = message.error()
            if problem is None:
                found.append(message)
            else:
                assert problem.code() == ck.KafkaError._PARTITION_EOF, problem
                left.discard(message.partition())
    finally:
        client.close()
    return found


def values(bootstrap: str, topic: str) -> Counter[str]:
    """How often each value is there."""
    return Counter(message.value().decode() for message in messages(bootstrap, topic))
