"""Where partitions begin and end, and where in them a time is: ListOffsets, asked of each partition's leader."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import trio

from ottla.client.cluster import Address, Cluster
from ottla.errors import KafkaError, LeaderNotAvailable, NetworkException, RemoteProtocolError, error
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
    problems: dict[TopicPartition, KafkaError] = {}

    async def round_of_all() -> None:
        left = {partition: time for partition, time in times.items() if partition not in found}
        former = {partition.topic for partition in problems}
        problems.clear()
        problems.update(
            await ask_offsets(cluster, left, found.__setitem__, read_committed=read_committed, doubted=former)
        )
        if problems:
            # One that a retry does not help is worth more than one that it may.
            raise min(problems.values(), key=lambda problem: problem.retriable)

    await cluster.retry(round_of_all)
    return found


async def ask_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    tell: Callable[[TopicPartition, FoundOffset], object],
    *,
    read_committed: bool = False,
    doubted: set[str] | frozenset[str] = frozenset(),
) -> dict[TopicPartition, KafkaError]:
    """Asks each leader once, and tells each offset as soon as its leader has answered. Gives the errors of partitions
    that have none, or whose leader cannot be asked. The leaders of `doubted` topics are looked up anew.

    Raises:
        KafkaError, OSError, RemoteProtocolError: the leaders cannot be looked up.
    """
    groups, without = cluster.located(times)
    if topics := {partition.topic for partition in without} | (doubted & {each.topic for each in times}):
        await cluster.refresh(sorted(topics))
        groups, without = cluster.located(times)
    problems = {each: why or LeaderNotAvailable(f"{each} has no leader now") for each, why in without.items()}
    async with trio.open_nursery() as nursery:
        for address, partitions in groups.items():
            asked = {partition: times[partition] for partition in partitions}
            nursery.start_soon(_ask, cluster, address, asked, read_committed, tell, problems)
    return problems


async def _ask(
    cluster: Cluster,
    address: Address,
    asked: Mapping[TopicPartition, int],
    read_committed: bool,
    tell: Callable[[TopicPartition, FoundOffset], object],
    problems: dict[TopicPartition, KafkaError],
) -> None:
    try:
        connection = await cluster.connection(address)
        answer = await connection.call(LIST_OFFSETS, _request(asked, read_committed), timeout_ms=cluster.timeout_ms)
    except (OSError, RemoteProtocolError, KafkaError) as problem:
        trouble = problem if isinstance(problem, KafkaError) else NetworkException(str(problem))
        problems.update(dict.fromkeys(asked, trouble))
        return
    left = set(asked)
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition not in left:
                continue
            left.discard(partition)
            if each.error_code:
                problems[partition] = error(each.error_code, str(partition))
            else:
                tell(partition, FoundOffset(each.offset, each.timestamp))
    for partition in left:
        problems[partition] = NetworkException(f"the answer of {address} says nothing of {partition}")


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
