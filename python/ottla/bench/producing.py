"""Batches out: as fast as they are answered, or at a fixed rate.

At a rate, each request has a time at which it should be sent and its latency counts from then: a broker that stalls
makes later requests late, and that shows (no coordinated omission). Without a rate it counts from the sending.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from ottla.bench.latencies import Latencies
from ottla.bench.payloads import ENCODED_PRODUCE, PRODUCE_VERSION, Batches
from ottla.client.cluster import Address, Cluster
from ottla.client.limits import OVERHEAD_BYTES, request_bytes_max, too_large
from ottla.errors import counted, error
from ottla.kafka import TopicPartition

IN_FLIGHT = 5


@dataclass
class Produced:
    """The records that were acknowledged (with acks=0: sent), and how long each request took."""

    records: int = 0
    value_bytes: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)


@dataclass
class _Work:
    """The requests, and the time at which each should go: `tasks` of them share it, and together send each once."""

    partitions: list[TopicPartition]
    requests: int
    gap_s: float | None
    begun: float = 0.0
    next: int = 0

    def take(self) -> tuple[TopicPartition, float | None] | None:
        """Where the next request goes and when; None at the end."""
        index = self.next
        if index >= self.requests:
            return None
        self.next += 1
        due = None if self.gap_s is None else self.begun + index * self.gap_s
        return self.partitions[index % len(self.partitions)], due


async def produce(
    cluster: Cluster,
    topic: str,
    batches: Batches,
    done: Produced | None = None,
    *,
    records: int,
    records_per_s: float | None = None,
    in_flight: int = IN_FLIGHT,
    partitions: list[int] | None = None,
    advance: Callable[[int, int], None] = lambda value_bytes, records: None,
) -> Produced:
    """Sends `records` records, rounded up to whole batches, to a topic's partitions in turns (or to some of them).

    done: what is given back, for whoever wants to see it before the end, or without one. in_flight: requests under way
    at once. advance: told (value bytes, records) after each request.

    Raises:
        KafkaError: a batch was refused, or would be. OSError: a broker went away. Nothing is sent again.
    """
    described = await cluster.topic(topic, create=True)
    numbers = range(len(described.partitions)) if partitions is None else partitions
    size = len(batches.values)
    gap_s = None if records_per_s is None else size / records_per_s
    work = _Work([TopicPartition(topic, number) for number in numbers], math.ceil(records / size), gap_s)
    done = done or Produced()
    limits: dict[Address, int | None] = {}
    for partition in work.partitions:
        # Leaders and connections are looked up before the time is taken.
        leader = await cluster.leader(partition)
        await cluster.connection(leader)
        if leader not in limits:
            limits[leader] = await request_bytes_max(cluster, leader)
        # A broker tells nobody why it closes a connection, so nothing is sent that it would close one for.
        body, bytes_max = batches.body(partition), limits[leader]
        if bytes_max is not None and len(body) > bytes_max + OVERHEAD_BYTES:
            raise too_large(f"{partition}: {counted(size, 'record')}", len(body), bytes_max)
    work.begun = trio.current_time()
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(in_flight):
                nursery.start_soon(_send, cluster, batches, work, done, advance)
    finally:
        done.seconds = trio.current_time() - work.begun
    return done


async def _send(
    cluster: Cluster, batches: Batches, work: _Work, done: Produced, advance: Callable[[int, int], None]
) -> None:
    size, value_bytes = len(batches.values), batches.value_bytes
    while (taken := work.take()) is not None:
        partition, due = taken
        if due is not None:
            await trio.sleep_until(due)
        since = trio.current_time() if due is None else due
        connection = await cluster.connection(await cluster.leader(partition))
        body = batches.body(partition)
        if batches.acks == 0:
            await connection.post(ENCODED_PRODUCE, body, PRODUCE_VERSION)
        else:
            answer = await connection.call(ENCODED_PRODUCE, body, PRODUCE_VERSION, timeout_ms=cluster.timeout_ms)
            (code,) = {each.error_code for row in answer.responses for each in row.partitions}
            if code:
                raise error(code, str(partition))
        done.latencies.record(trio.current_time() - since)
        done.records += size
        done.value_bytes += value_bytes
        advance(value_bytes, size)
