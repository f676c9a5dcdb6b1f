"""Where partitions begin and end, and where in them a time is: ListOffsets, asked of each partition's leader."""

from collections.abc import Mapping
from typing import NamedTuple

import trio

from ottla.client.cluster import Address, Cluster
from ottla.errors import KafkaError, NetworkException, error
from ottla.kafka import CONSUMER, TopicPartition
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


class FoundOffset(NamedTuple):
    """An offset and its record's time in milliseconds; -1 where no record was looked at, or none is late enough."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    cluster: Cluster, times: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset]:
    """The offset of the first record at or after each time in milliseconds, or of `EARLIEST` or `LATEST`.

    `LATEST` is the high watermark, or with `read_committed` the last stable offset: the first of an open transaction.
    Partitions whose leaders move meanwhile are asked again.

    Raises:
        KafkaError: what a leader answers and is not worth a retry, such as UnknownTopicOrPartition.
    """
    found: dict[TopicPartition, FoundOffset] = {}

    async def round_of_all() -> None:
        groups = await cluster.by_leader(partition for partition in times if partition not in found)
        problems: list[KafkaError] = []
        async with trio.open_nursery() as nursery:
            for address, partitions in groups.items():
                nursery.start_soon(ask, address, {partition: times[partition] for partition in partitions}, problems)
        if problems:
            # One that a retry does not help is worth more than one that it may.
            raise min(problems, key=lambda problem: problem.retriable)

    async def ask(address: Address, asked: Mapping[TopicPartition, int], problems: list[KafkaError]) -> None:
        try:
            connection = await cluster.connection(address)
            answer = await connection.call(LIST_OFFSETS, _request(asked, read_committed), timeout_ms=cluster.timeout_ms)
        except OSError as problem:
            cluster.forget({partition.topic for partition in asked})
            problems.append(NetworkException(str(problem)))
            return
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code:
                    cluster.forget([partition.topic])
                    problems.append(error(each.error_code, str(partition)))
                else:
                    found[partition] = FoundOffset(each.offset, each.timestamp)

    await cluster.retry(round_of_all)
    return found


def _request(asked: Mapping[TopicPartition, int], read_committed: bool) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, time in asked.items():
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(partition_index=partition.partition, timestamp=time)
        )
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
