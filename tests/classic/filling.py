"""Messages to be consumed, and the offsets up to which they were."""

from typing import Any

from ottla.classic import (
    Message,
    ProducerRequest,
    SimpleConsumer,
    SyncProducer,
    TopicPartition,
)
from tests.classic.conftest import Place

HOST = "127.0.0.1"


def fill(place: Place, topic: str, partitions: int, each: int, start: int = 0) -> set[str]:
    """So many messages in each partition; their values."""
    with SyncProducer(HOST, place.port) as producer:
        for partition in range(partitions):
            values = [Message(b"%d-%d" % (partition, start + number)) for number in range(each)]
            (found,) = producer.multi_send([ProducerRequest(topic, partition, values)])
            assert found.error is None
    return {f"{partition}-{start + number}" for partition in range(partitions) for number in range(each)}


def offsets(place: Place, mine: str, topic: str, partitions: int, storage: Any = "zookeeper") -> list[int]:
    with SimpleConsumer(HOST, place.port) as reader:
        found = reader.fetch_offsets(mine, [TopicPartition(topic, n) for n in range(partitions)], storage=storage)
    return [found.get(TopicPartition(topic, number), -1) for number in range(partitions)]
