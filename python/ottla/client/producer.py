"""Records out: collected into a batch per partition, sent to the leaders a few partitions at a time.

What `send` has taken lies in one of two places: a partition's open batch, or the queue of its closed ones. A batch is
closed when it is full, when it is `linger_ms` old and no other of its partition waits, or by `flush`. One task moves
closed batches to their leaders: one request per leader at a time, with at most one batch of each partition, so that a
batch that has to be sent again cannot be overtaken by the next.

Without idempotence a batch whose answer was lost may be appended twice.
"""

import math
import random
import time
from collections import deque
from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import trio

from ottla import _core
from ottla.client.cluster import Address, Cluster
from ottla.client.partitioner import keyed
from ottla.errors import KafkaError, MessageTooLarge, NetworkException, RemoteProtocolError, error
from ottla.kafka import TopicPartition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.k03_metadata import MetadataResponseTopic

ACKS_ALL = -1
BATCH_BYTES = 256 * 1024
REQUEST_BYTES = 4 * 1024 * 1024
MEMORY_BYTES = 64 * 1024 * 1024
LINGER_MS = 5
RETRY_MS = 100
REQUEST_TIMEOUT_MS = 30_000
DELIVERY_TIMEOUT_MS = 120_000
# A task that only ever sends must let others run now and then.
SENDS_PER_CHECKPOINT = 256

Headers = Iterable[tuple[str, bytes | None]]


class _Batch:
    """Records of one partition on their way."""

    __slots__ = ("born", "builder", "bytes", "data", "partition", "problem", "records")

    def __init__(self, partition: TopicPartition, builder: _core.BatchBuilder | None) -> None:
        self.partition = partition
        self.builder = builder
        self.born = trio.current_time()
        self.records = 0
        self.bytes = 0
        self.data = b""
        self.problem: Exception | None = None
        """Why it could not be delivered when it was last tried."""


class Producer:
    """`async with Producer(cluster) as producer: await producer.send("topic", b"value")`; leaving the block flushes.

    An error that cannot be repaired by trying again is raised by the next `send` or `flush`; the records of that
    batch are lost, others are not. `acknowledged` counts the records that brokers have acknowledged (with acks=0:
    that were sent).
    """

    #: Of `TransactionalProducer`.
    _transactional_id: str | None = None

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: str = "none",
        batch_bytes: int = BATCH_BYTES,
        linger_ms: float = LINGER_MS,
        memory_bytes: int = MEMORY_BYTES,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
    ) -> None:
        """`acks` is 0, 1 or -1 (all); `compression` none, gzip, snappy, lz4 or zstd; `memory_bytes` bounds what
        waits.
        """
        self.cluster = cluster
        self.acks = acks
        self.compression = compression
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.memory_bytes = memory_bytes
        self.delivery_timeout_ms = delivery_timeout_ms
        self.acknowledged = 0
        self._open: dict[TopicPartition, _Batch] = {}
        self._closed: dict[TopicPartition, deque[_Batch]] = {}
        self._sticky: dict[str, TopicPartition] = {}
        # Per topic, made anew when its metadata are: building a tuple per record would cost a quarter of `send`.
        self._partitions: dict[str, tuple[MetadataResponseTopic, tuple[TopicPartition, ...]]] = {}
        self._busy: set[Address] = set()
        self._bytes = 0
        self._sends = 0
        self._problem: KafkaError | None = None
        self._wake = trio.Event()
        self._progress = trio.Event()
        self._stack = AsyncExitStack()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Takes a record; it is sent soon. Waits only while `memory_bytes` are on their way, or for a new topic's
        metadata.

        Raises:
            KafkaError: the topic cannot be had, the record is refused, or an earlier batch failed.
        """
        self._raise()
        while self._bytes >= self.memory_bytes:
            self._close_all()
            await self._progress.wait()
            self._raise()
        to = self._partition(topic, key, partition)
        if to is None:
            await self.cluster.topic(topic, create=True)
            to = self._partition(topic, key, partition)
            assert to is not None
        batch = self._open.get(to)
        if batch is None:
            batch = self._open[to] = _Batch(to, self._new_builder(to))
            if len(self._open) == 1:
                self._wake.set()
        builder = batch.builder
        assert builder is not None
        try:
            builder.append(
                int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
                key,
                value,
                [(name, content) for name, content in headers] if headers else (),
            )
        except BaseException:
            if not batch.records:
                del self._open[to]
            raise
        size = builder.size_bytes
        self._bytes += size - batch.bytes
        batch.bytes = size
        batch.records += 1
        if size >= self.batch_bytes:
            self._close(to)
            self._wake.set()
        self._sends += 1
        if self._sends % SENDS_PER_CHECKPOINT == 0:
            await trio.lowlevel.checkpoint()

    async def send_batch(self, partition: TopicPartition, data: bytes, records: int) -> None:
        """Takes a whole batch of the current format, encoded and with whatever sequence it needs; waits only while
        `memory_bytes` are on their way. Not for partitions that `send` writes to as well: their order would be lost.

        Raises:
            KafkaError: an earlier batch failed.
        """
        self._raise()
        while self._bytes >= self.memory_bytes:
            await self._progress.wait()
            self._raise()
        batch = _Batch(partition, None)
        batch.data, batch.bytes, batch.records = data, len(data), records
        self._bytes += batch.bytes
        self._closed.setdefault(partition, deque()).append(batch)
        self._wake.set()

    async def flush(self) -> None:
        """Waits until everything taken so far was acknowledged.

        Raises:
            KafkaError: some of it cannot be.
        """
        self._close_all()
        while self._bytes:
            await self._progress.wait()
        self._raise()

    def _partition(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition | None:
        """Where a record goes; None while the topic's metadata are not known."""
        if partition is not None:
            return TopicPartition(topic, partition)
        known = self.cluster.metadata.topics.get(topic)
        if known is None:
            return None
        described, all_of_it = self._partitions.get(topic, (None, ()))
        if described is not known:
            all_of_it = tuple(TopicPartition(topic, number) for number in range(len(known.partitions)))
            self._partitions[topic] = known, all_of_it
        if key is not None:
            return all_of_it[keyed(key, len(all_of_it))]
        if (sticky := self._sticky.get(topic)) is None:
            sticky = self._sticky[topic] = random.choice(all_of_it)
        return sticky

    def _new_builder(self, partition: TopicPartition) -> _core.BatchBuilder:
        return _core.BatchBuilder(compression=self.compression)

    def _close(self, partition: TopicPartition) -> None:
        batch = self._open.pop(partition)
        if self._sticky.get(partition.topic) == partition:
            del self._sticky[partition.topic]
        assert batch.builder is not None
        batch.data = batch.builder.finish()
        batch.builder = None
        self._bytes += len(batch.data) - batch.bytes
        batch.bytes = len(batch.data)
        self._closed.setdefault(partition, deque()).append(batch)

    def _close_all(self) -> None:
        for partition in list(self._open):
            self._close(partition)
        self._wake.set()

    def _raise(self) -> None:
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    async def _run(self, nursery: trio.Nursery) -> None:
        """Moves closed batches to their leaders until cancelled."""
        while True:
            self._wake = trio.Event()
            await self._dispatch(nursery)
            deadline = math.inf
            if ripening := [batch.born for partition, batch in self._open.items() if not self._closed.get(partition)]:
                deadline = min(ripening) + self.linger_ms / 1000
            if any(self._closed.values()):
                # For partitions without a leader; those whose leader is busy are woken by its answer.
                deadline = min(deadline, trio.current_time() + RETRY_MS / 1000)
            with trio.move_on_at(deadline):
                await self._wake.wait()
            aged = trio.current_time() - self.linger_ms / 1000
            # One that others of its partition are before grows on: more small requests would only make it later.
            ripe = [each for each, batch in self._open.items() if batch.born <= aged and not self._closed.get(each)]
            for partition in ripe:
                self._close(partition)

    async def _dispatch(self, nursery: trio.Nursery) -> None:
        """Starts a request to each leader that has none under way and for which batches wait."""
        requests: dict[Address, list[_Batch]] = {}
        sizes: dict[Address, int] = {}
        for partition, queue in list(self._closed.items()):
            while queue and trio.current_time() - queue[0].born > self.delivery_timeout_ms / 1000:
                late = queue.popleft()
                self._fail(late, _late(late, self.delivery_timeout_ms))
            if not queue:
                continue
            try:
                leader = await self.cluster.leader(partition)
            except (KafkaError, OSError, RemoteProtocolError) as problem:
                if isinstance(problem, KafkaError) and not problem.retriable:
                    self._fail(queue.popleft(), problem)
                else:
                    queue[0].problem = problem
                continue
            if leader not in self._busy and sizes.get(leader, 0) < REQUEST_BYTES:
                requests.setdefault(leader, []).append(queue.popleft())
                sizes[leader] = sizes.get(leader, 0) + requests[leader][-1].bytes
        for leader, batches in requests.items():
            self._busy.add(leader)
            nursery.start_soon(self._send, leader, batches)

    async def _send(self, leader: Address, batches: list[_Batch]) -> None:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topics.setdefault(batch.partition.topic, []).append(
                PartitionProduceData(partition_index=batch.partition.partition, records=batch.data)
            )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self.acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topics=[TopicProduceData(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        waiting = {batch.partition: batch for batch in batches}
        try:
            connection = await self.cluster.connection(leader)
            if self.acks == 0:
                await connection.post(PRODUCE, request)
                for batch in waiting.values():
                    self._done(batch)
                waiting.clear()
            else:
                answer = await connection.call(PRODUCE, request, timeout_ms=REQUEST_TIMEOUT_MS)
                self._answered(answer, waiting)
        except KafkaError as problem:  # of the connection: this broker does not take us
            for batch in waiting.values():
                self._fail(batch, problem)
            waiting.clear()
        except (OSError, RemoteProtocolError) as problem:
            for batch in waiting.values():
                batch.problem = problem
        finally:
            if waiting:
                self.cluster.forget({partition.topic for partition in waiting})
                for batch in waiting.values():
                    self._closed[batch.partition].appendleft(batch)
        if waiting:
            await trio.sleep(RETRY_MS / 1000)
        self._busy.discard(leader)
        self._wake.set()

    def _answered(self, answer: ProduceResponse, waiting: dict[TopicPartition, _Batch]) -> None:
        """Takes out of `waiting` what is decided."""
        for topic in answer.responses:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if not each.error_code:
                    self._done(waiting.pop(partition))
                    continue
                problem = error(each.error_code, f"{partition}: {each.error_message or ''}".rstrip(": "))
                batch = waiting[partition]
                batch.problem = problem
                if isinstance(problem, MessageTooLarge):
                    number = f"{batch.records} record{'' if batch.records == 1 else 's'}"
                    problem = MessageTooLarge(f"{problem}: {number} in {len(batch.data)} bytes")
                if not problem.retriable:
                    self._fail(waiting.pop(partition), problem)

    def _done(self, batch: _Batch) -> None:
        self.acknowledged += batch.records
        self._left(batch)

    def _fail(self, batch: _Batch, problem: KafkaError) -> None:
        self._problem = self._problem or problem
        self._left(batch)

    def _left(self, batch: _Batch) -> None:
        self._bytes -= batch.bytes
        self._progress.set()
        self._progress = trio.Event()

    async def __aenter__(self) -> Self:
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._stack.callback(nursery.cancel_scope.cancel)
        nursery.start_soon(self._run, nursery)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if problem is None:
                await self.flush()
        finally:
            # The nursery is not shown the block's exception: it would wrap it in a group.
            await self._stack.aclose()


def _late(batch: _Batch, timeout_ms: float) -> NetworkException:
    """The error of a batch whose time is over, with what last stood in its way."""
    late = f"{batch.partition}: not delivered within {timeout_ms:g} ms"
    match batch.problem:
        case None:
            return NetworkException(late)
        case KafkaError() as answer:
            why = str(answer).removeprefix(str(batch.partition)).removeprefix(": ")
            return NetworkException(f"{late}; the last answer was {answer.name}" + (f" ({why})" if why else ""))
        case problem:
            return NetworkException(f"{late}; the last attempt failed: {problem}")
