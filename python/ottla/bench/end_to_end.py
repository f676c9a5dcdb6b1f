"""One record at a time: from its sending until it has come back, as Kafka's EndToEndLatency measures it."""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

from ottla._core import RecordReader
from ottla.bench.consuming import Limits
from ottla.bench.latencies import Latencies
from ottla.bench.payloads import ENCODED_PRODUCE, PRODUCE_VERSION, Batches
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.offsets import list_offsets
from ottla.errors import error
from ottla.kafka import CONSUMER, LATEST, TopicPartition

MARK_BYTES = 16


async def measure(
    cluster: Cluster,
    topic: str,
    latencies: Latencies | None = None,
    *,
    records: int,
    record_bytes: int,
    acks: int,
    advance: Callable[[int, int], None] = lambda value_bytes, records: None,
) -> Latencies:
    """Sends `records` records of at least 16 bytes to partition 0, each when the one before has come back.

    latencies: what is given back, for whoever wants to see it before the end, or without one.

    Sender and receiver have a connection each, as two programs would.

    Raises:
        KafkaError: the topic cannot be written or read. OSError: the broker went away.
    """
    await cluster.topic(topic, create=True)
    partition = TopicPartition(topic, 0)
    leader = await cluster.leader(partition)
    position = (await list_offsets(cluster, {partition: LATEST}))[partition].offset
    sender = await cluster.connection(leader)
    latencies = latencies or Latencies()
    async with await Connection.connect(
        *leader, client_id="ottla-bench", timeout_ms=cluster.timeout_ms, security=cluster.security
    ) as receiver:
        for _ in range(records):
            mark = os.urandom(MARK_BYTES)
            value = mark + bytes(max(0, record_bytes - MARK_BYTES))
            body = Batches([value], acks, "none").body(partition)
            since = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send, sender, body, acks, partition, cluster.timeout_ms)
                position = await _receive(receiver, partition, position, mark, cluster.timeout_ms)
                latencies.record(trio.current_time() - since)
            advance(len(value), 1)
    return latencies


async def _send(connection: Connection, body: bytes, acks: int, partition: TopicPartition, timeout_ms: float) -> None:
    if acks == 0:
        await connection.post(ENCODED_PRODUCE, body, PRODUCE_VERSION)
        return
    answer = await connection.call(ENCODED_PRODUCE, body, PRODUCE_VERSION, timeout_ms=timeout_ms)
    if code := answer.responses[0].partitions[0].error_code:
        raise error(code, str(partition))


async def _receive(
    connection: Connection, partition: TopicPartition, position: int, mark: bytes, timeout_ms: float
) -> int:
    """Waits for the record with this mark, past those of others; the offset after it."""
    limits = Limits()
    while True:
        asked = FetchPartition(
            partition=partition.partition, fetch_offset=position, partition_max_bytes=limits.partition_bytes
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=limits.wait_ms,
            min_bytes=1,
            max_bytes=limits.fetch_bytes,
            topics=[FetchTopic(topic=partition.topic, partitions=[asked])],
        )
        answer = await connection.call(FETCH, request, timeout_ms=timeout_ms + limits.wait_ms)
        each = answer.partitions[0]
        if each.error_code:
            raise error(each.error_code, f"{partition} at offset {position}")
        for record in RecordReader(each.records or b"", start_offset=position):
            position = record.offset + 1
            if (record.value or b"")[:MARK_BYTES] == mark:
                return position
