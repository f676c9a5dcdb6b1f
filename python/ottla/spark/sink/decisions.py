"""The topic of decisions: one record per batch and query, the last one counts (compacted)."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

import trio

from ottla.client import EARLIEST, LATEST, Admin, Cluster, Consumer, TopicPartition, TransactionalProducer
from ottla.client.offsets import list_offsets
from ottla.client.partitioner import keyed
from ottla.errors import OffsetOutOfRange, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.spark.sink.protocol import TOPIC, Decision, Names

PARTITIONS = 8
REPLICAS_MAX = 3
SEGMENT_BYTES = 1024 * 1024
"""The size of a segment of the topic. A driver reads a few of these at its start: compaction leaves the active one
alone.
"""
TIMEOUT_MS = 10_000
"""Of the decision's transaction. A driver that dies in it keeps other queries' drivers waiting for so long."""
READ_TIMEOUT_S = 60
READ_WAIT_MS = 100

_read: dict[tuple[str, str], tuple[int, Decision | None]] = {}
"""By cluster and key: the offset to read on from, and the last decision before it. Spark's workers are used again."""


async def last_decision(cluster: Cluster, key: str, *, wait: bool) -> Decision | None:
    """The query's last decision; None also without the topic.

    `wait` reads to where the partition ends now, past transactions that are open (their end is waited for);
    otherwise to the first of these.

    Raises:
        KafkaError, OSError; ValueError: what lies there is not ours. TimeoutError: an open transaction does not end.
    """
    try:
        partition = await _partition(cluster, key)
    except UnknownTopicOrPartition:
        return None
    end = (await list_offsets(cluster, {partition: LATEST}, read_committed=not wait))[partition].offset
    memory = (cluster.metadata.cluster_id or "", key)
    position, found = _read.get(memory, (EARLIEST, None))
    consumer = Consumer(cluster, read_committed=True, wait_ms=READ_WAIT_MS)
    await consumer.assign({partition: position})
    with trio.move_on_after(READ_TIMEOUT_S):
        while consumer.positions[partition] < end:
            try:
                records = await consumer.poll()
            except OffsetOutOfRange:
                await consumer.assign({partition: EARLIEST})
                found = None
                continue
            for record in records:
                if record.key == key.encode():
                    found = Decision.decode(record.value) if record.value else None
        _read[memory] = consumer.positions[partition], found
        return found
    raise TimeoutError(
        f"{partition} cannot be read up to offset {end} within {READ_TIMEOUT_S} s: some transaction in it stays open "
        f"(`ottla transaction find-hanging --topic {partition.topic}` shows those that nobody will end)"
    )


async def _partition(cluster: Cluster, key: str) -> TopicPartition:
    numbers = await cluster.partitions(TOPIC)
    return TopicPartition(TOPIC, keyed(key.encode(), len(numbers)))


async def create(cluster: Cluster) -> None:
    """The topic, if it does not exist."""
    try:
        await cluster.partitions(TOPIC)
    except UnknownTopicOrPartition:
        await cluster.refresh([])
        replicas = min(REPLICAS_MAX, len(cluster.metadata.brokers))
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.insync.replicas": str(max(1, replicas - 1)),
        }
        with suppress(TopicAlreadyExists):
            await Admin(cluster).create_topic(TOPIC, PARTITIONS, replicas, settings)


class Deciding:
    """The only one who decides for this query: entering the block fences all earlier ones.

    `async with Deciding(cluster, names) as deciding:` makes the topic if it is absent.
    """

    def __init__(self, cluster: Cluster, names: Names) -> None:
        self.cluster = cluster
        self.names = names
        self._producer = TransactionalProducer(cluster, names.decision, transaction_timeout_ms=TIMEOUT_MS, linger_ms=0)

    async def last(self) -> Decision | None:
        """The last decision; none can come before the next one of ours."""
        return await last_decision(self.cluster, self.names.key, wait=True)

    async def append(self, decision: Decision) -> None:
        """Decides. When this raises, it may be decided nevertheless: whoever comes next reads it.

        Raises:
            ProducerFenced, InvalidProducerEpoch: another driver decides for this query now.
        """
        partition = await _partition(self.cluster, self.names.key)
        async with self._producer.transaction():
            await self._producer.send(
                TOPIC, decision.encode(), key=self.names.key.encode(), partition=partition.partition
            )

    async def __aenter__(self) -> Self:
        await create(self.cluster)
        await self._producer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.__aexit__(kind, problem, trace)
