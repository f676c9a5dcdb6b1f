"""The records that readers of committed ones find, by somebody else's client."""

from collections import Counter

import confluent_kafka as ck
import trio

from ottla.client import LATEST, Cluster, TopicPartition
from ottla.client.offsets import list_offsets
from tests.support.waiting import PATIENCE_S, eventually


def ends(bootstrap: str, topic: str, *, committed: bool) -> dict[int, int]:
    """Of each partition the last stable offset, or else the high watermark."""

    async def ask() -> dict[int, int]:
        async with Cluster(bootstrap) as cluster:
            asked = {TopicPartition(topic, number): LATEST for number in await cluster.partitions(topic)}
            found = await list_offsets(cluster, asked, read_committed=committed)
            return {partition.partition: each.offset for partition, each in found.items()}

    return trio.run(ask)


def all_ended(bootstrap: str, topic: str) -> dict[int, int] | None:
    """The ends of the partitions, by partition, if no transaction is open."""
    high, stable = (ends(bootstrap, topic, committed=committed) for committed in (False, True))
    return high if high == stable else None


def messages(bootstrap: str, topic: str) -> list[ck.Message]:
    """All committed records, once the last stable offset has reached the high watermark in every partition."""
    high = eventually(f"the transactions of {topic} have ended", lambda: all_ended(bootstrap, topic))
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
            message = client.poll(PATIENCE_S)
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
