"""Batches in, from the beginnings or the ends of a topic's partitions, as fast as they come.

Each leader is asked by a task of its own, for all partitions that it leads. Batches are counted by their headers, after
their checksums were compared; records are not unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from ottla._core import read_batches
from ottla.bench.latencies import Latencies
from ottla.client.cluster import Address, Cluster
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.offsets import list_offsets
from ottla.errors import error
from ottla.kafka import CONSUMER, EARLIEST, LATEST, TopicPartition

FETCH_BYTES = 50 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024
WAIT_MS = 500


@dataclass
class Consumed:
    """The records that were consumed: `received_bytes` are those of batches, compressed as they are. Latencies are of
    Fetch requests.
    """

    records: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)


@dataclass(frozen=True)
class Limits:
    """Of one answer and of one partition in it, in bytes; how long a broker may wait for a first byte."""

    fetch_bytes: int = FETCH_BYTES
    partition_bytes: int = PARTITION_BYTES
    wait_ms: int = WAIT_MS


async def consume(
    cluster: Cluster,
    topic: str,
    done: Consumed | None = None,
    *,
    records: int,
    from_latest: bool = False,
    timeout_ms: float = 10_000,
    limits: Limits | None = None,
    advance: Callable[[int, int], None] = lambda received_bytes, records: None,
) -> Consumed:
    """Reads until `records` records came, or none for `timeout_ms`.

    done: what is given back, for whoever wants to see it before the end, or without one. advance: told (bytes, records)
    after each answer.

    Raises:
        KafkaError: the topic cannot be read. OSError: a broker went away.
    """
    partitions = [TopicPartition(topic, number) for number in await cluster.partitions(topic)]
    starts = await list_offsets(cluster, dict.fromkeys(partitions, LATEST if from_latest else EARLIEST))
    positions = {partition: found.offset for partition, found in starts.items()}
    done = done or Consumed()
    begun = last = trio.current_time()

    async def follow(leader: Address, led: list[TopicPartition]) -> None:
        nonlocal last
        while done.records < records and trio.current_time() - last < timeout_ms / 1000:
            before = done.records
            received = await _fetch(cluster, leader, led, positions, limits or Limits(), done)
            if done.records > before:
                last = trio.current_time()
                done.seconds = last - begun
            advance(received, done.records - before)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for leader, led in (await cluster.by_leader(partitions)).items():
            nursery.start_soon(follow, leader, led)
    return done


async def _fetch(
    cluster: Cluster,
    leader: Address,
    led: list[TopicPartition],
    positions: dict[TopicPartition, int],
    limits: Limits,
    done: Consumed,
) -> int:
    """One request; moves the positions. How many bytes of batches came."""
    asked = [
        FetchPartition(
            partition=partition.partition,
            fetch_offset=positions[partition],
            partition_max_bytes=limits.partition_bytes,
        )
        for partition in led
    ]
    request = FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=limits.wait_ms,
        min_bytes=1,
        max_bytes=limits.fetch_bytes,
        topics=[FetchTopic(topic=led[0].topic, partitions=asked)],
    )
    since = trio.current_time()
    connection = await cluster.connection(leader)
    answer = await connection.call(FETCH, request, timeout_ms=cluster.timeout_ms + limits.wait_ms)
    done.latencies.record(trio.current_time() - since)
    received = 0
    for each in answer.partitions:
        partition = TopicPartition(each.topic, each.partition)
        if each.error_code:
            raise error(each.error_code, f"{partition} at offset {positions[partition]}")
        for batch in read_batches(each.records or b""):
            # A batch may begin before the offset that was asked for.
            done.records += batch.record_count
            received += batch.size_bytes
            positions[partition] = batch.last_offset + 1
    # Brokers fill answers from the front: whoever came first comes last.
    led.append(led.pop(0))
    done.received_bytes += received
    return received
