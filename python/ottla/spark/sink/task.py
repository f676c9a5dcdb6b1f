"""One Spark task of a write: rows from Spark, encoded in Rust, to the partitions' leaders.

The next rows are waited for in a thread, because Spark gives them with a blocking call, and batches are sent meanwhile.
With a transactional id everything is one transaction, which is left open: whoever decides ends it (`commit`). An error
aborts it here.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from ottla import _core
from ottla.client import Cluster, Producer, TopicPartition, TransactionalProducer
from ottla.errors import InvalidTransactionTimeout, KafkaError, MessageTooLarge, RemoteProtocolError, check, error
from ottla.spark.sink import hooks, rows
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.options import WriteOptions

ROWS_AHEAD_BYTES = 4 * 1024 * 1024
"""Encoded batches that may wait to be sent while the next rows are waited for."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction whose records are all acknowledged."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    records: int
    opened_s: float
    """Unix time by the task's clock, for messages to people."""


@dataclass(frozen=True, slots=True)
class Written:
    """The rows that a task wrote, counted by topic. `transaction` is None without a transactional id, and if there was
    no row.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    transaction: Transaction | None = None


def write(options: WriteOptions, batches: Iterator[pa.RecordBatch], transactional_id: str | None) -> Written:
    """Sends all rows and returns when they are acknowledged. Without a row nothing is asked of any broker.

    Raises:
        KafkaError, OSError: rows cannot be delivered; the transaction was aborted.
        ValueError: a row cannot be written.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written()
    return trio.run(_write, options, first, batches, transactional_id)


async def _write(
    options: WriteOptions, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], transactional_id: str | None
) -> Written:
    opened_s = time.time()
    async with options.cluster() as cluster:
        if transactional_id is None:
            async with Producer(
                cluster,
                acks=options.acks,
                idempotent=False,  # the batches bring their sequences
                memory_bytes=ROWS_AHEAD_BYTES,
                delivery_timeout_ms=options.delivery_timeout_ms,
            ) as producer:
                identity = await _producer_id(cluster) if options.idempotent else (-1, -1)
                sending = _Sending(options, producer, identity, transactional=False)
                await sending.all(first, rest)
                await sending.flush()
            return Written(sending.rows)
        try:
            transactional = TransactionalProducer(
                cluster,
                transactional_id,
                transaction_timeout_ms=options.transaction_timeout_ms,
                memory_bytes=ROWS_AHEAD_BYTES,
                delivery_timeout_ms=options.delivery_timeout_ms,
            )
            async with transactional:
                identity = transactional.producer_id, transactional.producer_epoch
                transactional.begin()
                sending = _Sending(options, transactional, identity, transactional=True)
                try:
                    await sending.all(first, rest)
                    await sending.flush()
                    await transactional.prepare()
                    await hooks.reached("written")
                except BaseException:
                    await _abort(transactional, options)
                    raise
        except InvalidTransactionTimeout as problem:
            raise InvalidTransactionTimeout(
                f"kafka.transaction.timeout.ms={options.transaction_timeout_ms} is more than the brokers' "
                f"transaction.max.timeout.ms: {problem}"
            ) from problem
        partitions = tuple(sorted(sending.partitions))
        transaction = Transaction(transactional_id, *identity, partitions, sending.rows.total(), opened_s)
        return Written(sending.rows, transaction)


async def _abort(producer: TransactionalProducer, options: WriteOptions) -> None:
    """As far as it is possible; otherwise the next commit ends it, or its timeout. What led here tells more."""
    limit = trio.move_on_after(min(options.block_ms_max, 10_000) / 1000, shield=True)
    with limit, suppress(KafkaError, OSError, RemoteProtocolError):
        await producer.abort()


async def _producer_id(cluster: Cluster) -> tuple[int, int]:
    """For an idempotent producer without transactions, which any broker names."""

    async def once() -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await cluster.ask(INIT_PRODUCER_ID, request)
        check(answer.error_code, "a producer id")
        return answer

    answer = await cluster.retry(once)
    return answer.producer_id, answer.producer_epoch


class _Sending:
    """Rows into the producer, in the order in which Spark gives them."""

    def __init__(
        self, options: WriteOptions, producer: Producer, identity: tuple[int, int], *, transactional: bool
    ) -> None:
        self.options = options
        self.producer = producer
        self.partitions: set[TopicPartition] = set()
        self.rows: Counter[str] = Counter()
        producer_id, producer_epoch = identity
        self._encoder = _core.RowEncoder(
            compression=options.compression,
            level=options.level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=transactional,
            batch_bytes=options.batch_bytes,
            record_bytes_max=options.request_bytes_max,
            memory_bytes=options.memory_bytes,
            seed=random.randrange(1 << 16),
        )

    async def all(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        batch: pa.RecordBatch | None = first
        while batch is not None:
            await self._batch(batch)
            batch = await trio.to_thread.run_sync(next, rest, None)

    async def flush(self) -> None:
        self._encoder.flush()
        await self._send()
        try:
            await self.producer.flush()
        except KafkaError as problem:
            raise self._explained(problem) from problem

    async def _batch(self, batch: pa.RecordBatch) -> None:
        taken = rows.columns(batch, self.options)
        now_ms = time.time_ns() // 1_000_000
        row, count = 0, batch.num_rows
        while row < count:
            row, new_topic = self._encoder.append(count, row, now_ms=now_ms, **taken)
            if new_topic is not None:
                partitions = await self._partition_count(new_topic)
                self._encoder.add_topic(new_topic, partitions)
            await self._send()

    async def _partition_count(self, topic: str) -> int:
        try:
            return len((await self.producer.cluster.topic(topic, create=True)).partitions)
        except KafkaError as problem:
            raise error(problem.code, f"topic '{topic}' is not there to write to: {problem}") from problem

    async def _send(self) -> None:
        for topic, number, records, data in self._encoder.take():
            partition = TopicPartition(topic, number)
            self.partitions.add(partition)
            self.rows[topic] += records
            try:
                await self.producer.send_batch(partition, data, records)
            except KafkaError as problem:
                raise self._explained(problem) from problem

    def _explained(self, problem: KafkaError) -> KafkaError:
        if isinstance(problem, MessageTooLarge):
            return MessageTooLarge(
                f"{problem}. A batch is larger than the topic's max.message.bytes: lower kafka.batch.size, which is "
                f"{self.options.batch_bytes}"
            )
        return problem
