"""Records out: collected into a batch per partition, sent to the leaders a few partitions at a time.

What `send` has taken lies in one of two places: a partition's open batch, or its queue of closed ones (`batches`). A
batch is closed when it is full, when it is `linger_ms` old and no other of its partition waits, or by `flush`. One task
moves closed batches to their leaders: up to five requests per leader are under way on one connection, with at most one
batch of each partition in a request. Five are as many batches of a producer as a partition remembers.

A producer is idempotent unless told otherwise, as Java's is since 3.0 (KIP-679): brokers know its batches by sequence,
so that one whose answer was lost is not appended twice when it is sent again, and none is appended before the one that
it follows. Without idempotence a partition has one batch under way at a time, which keeps the order, but a batch whose
answer was lost may be appended twice.
"""

import math
import random
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

import trio

from ottla import _core
from ottla._core import murmur2
from ottla.client.batches import EPOCH_MAX, NOBODY, Batch, Delivered, Identity, Queue, Receipt
from ottla.client.bounds import at_least
from ottla.client.cluster import SILENT_MS, Address, Cluster, lacks
from ottla.client.connection import Connection
from ottla.client.errors import ConnectionLost
from ottla.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    NetworkException,
    OutOfOrderSequenceNumber,
    RemoteProtocolError,
    UnknownProducerId,
    check,
    counted,
    error,
)
from ottla.kafka import ACKS_ALL, TopicPartition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.k03_metadata import MetadataResponseTopic
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest

BATCH_BYTES = 256 * 1024
REQUESTS_UNDER_WAY = 5
REQUEST_BYTES = 4 * 1024 * 1024
MEMORY_BYTES = 64 * 1024 * 1024
LINGER_MS = 5
RETRY_MS = 100
REQUEST_TIMEOUT_MS = 30_000
DELIVERY_TIMEOUT_MS = 120_000
# A task that only ever sends must let others run now and then.
SENDS_PER_CHECKPOINT = 256

Headers = Iterable[tuple[str, bytes | None]]

#: What a broker answers that does not know what came before a batch, or knows a later life of the producer.
OUT_OF_SEQUENCE = (OutOfOrderSequenceNumber, UnknownProducerId, InvalidProducerEpoch)
_UNKNOWN: tuple[None, tuple[TopicPartition, ...]] = None, ()
_NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


class _Lane:
    """What is under way to one broker. Requests go on their way one after the other, so that they stay in order."""

    __slots__ = ("connecting", "connecting_since", "connection", "is_doubted", "is_sending", "only", "requests")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        #: While the connection is being made.
        self.connecting: trio.CancelScope | None = None
        self.connecting_since = 0.0
        self.requests: list[dict[TopicPartition, Batch]] = []
        """Of each that is under way, what is not decided yet."""
        self.is_doubted = False
        """Whether somebody asks just now if this broker leads what it does not answer."""
        self.only: Connection | None = None
        """Where what is being sent may go, if something was under way when it was taken: it must not come to the broker
        by another connection, past what is to be sent again.
        """
        self.is_sending = False

    @property
    def is_silent(self) -> bool:
        """Whether the broker owes an answer for more than a moment."""
        if self.connecting is not None:
            return trio.current_time() - self.connecting_since >= SILENT_MS / 1000
        return bool(self.requests and self.connection is not None and self.connection.silent_s() >= SILENT_MS / 1000)

    async def connected(self, cluster: Cluster, leader: Address) -> Connection:
        """The open connection to the broker, or a new one. Errors as `Cluster.connection`.

        Raises:
            ConnectionLost: `give_up` was called first.
        """
        self.connecting, self.connecting_since = trio.CancelScope(), trio.current_time()
        try:
            with self.connecting:
                return await cluster.connection(leader)
            raise ConnectionLost(f"{leader} does not answer")
        finally:
            self.connecting = None

    async def give_up(self) -> None:
        """Ends what the broker owes an answer for, with ConnectionLost."""
        if self.connecting is not None:
            self.connecting.cancel()
        elif self.connection is not None:
            await self.connection.aclose()

    @property
    def is_free(self) -> bool:
        if self.is_sending or len(self.requests) >= REQUESTS_UNDER_WAY:
            return False
        # What was under way when a connection ended has to be seen to have failed before anything follows it.
        return not (self.requests and self.connection is not None and self.connection.closed)


class Producer:
    """`async with Producer(cluster) as producer: await producer.send("topic", b"value")`; leaving the block flushes.

    `send` only takes a record, and gives nothing, so that one call per record costs little. Whoever wants to know where
    a record went calls `send_with_receipt`, and waits for the receipt when it suits, or `send_and_wait`, which waits
    for each record: one round trip each, unless many tasks do it.

    An error that cannot be repaired by trying again is raised by the next `send` or `flush`, unless all records of that
    batch have receipts, which raise it then. The records of that batch are lost, others are not. `acknowledged` counts
    the records that brokers have acknowledged (with acks=0: that were sent).
    """

    #: Of `TransactionalProducer`.
    _transactional_id: str | None = None
    #: Whether a partition that has forgotten this producer may begin again with the next epoch.
    _may_begin_again = True

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
        compression: str = "none",
        batch_bytes: int = BATCH_BYTES,
        linger_ms: float = LINGER_MS,
        memory_bytes: int = MEMORY_BYTES,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
    ) -> None:
        """`acks` is 0, 1 or -1 (all); `compression` none, gzip, snappy, lz4 or zstd; `memory_bytes` bounds what
        waits. Idempotence needs acks=-1: another one has to be chosen together with `idempotent=False`.

        Raises:
            ValueError: acks is none of them, or does not go with idempotence; or another number is too small.
        """
        at_least(1, batch_bytes=batch_bytes, memory_bytes=memory_bytes)
        at_least(0, linger_ms=linger_ms, delivery_timeout_ms=delivery_timeout_ms)
        if acks not in (0, 1, ACKS_ALL):
            raise ValueError(f"acks={acks}: there are 0, 1 and -1 (all)")
        if idempotent and acks != ACKS_ALL:
            raise ValueError(
                f"acks={acks} needs idempotent=False: what a leader may lose after it was acknowledged cannot be there "
                "exactly once. Leave acks at -1 (all) to keep idempotence"
            )
        self.cluster = cluster
        self.acks = acks
        self.idempotent = idempotent
        self.compression = compression
        self.batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self.memory_bytes = memory_bytes
        self.delivery_timeout_ms = delivery_timeout_ms
        self.acknowledged = 0
        self.newest: Batch | None = None
        """Where the record is that was taken last. Who asks after each `send` knows whose fate a record shares, and
        needs no receipt for each.
        """
        self.producer_id, self.producer_epoch = NOBODY
        self._open: dict[TopicPartition, Batch] = {}
        self._queues: dict[TopicPartition, Queue] = {}
        self._sticky: dict[str, TopicPartition] = {}
        # Per topic, made anew when its metadata are: building a tuple per record would cost a quarter of `send`.
        #: How many partitions topics have, of those into which somebody chose one.
        self._counts: dict[str, int] = {}
        self._partitions: dict[str, tuple[MetadataResponseTopic, tuple[TopicPartition, ...]]] = {}
        self._lanes: dict[Address, _Lane] = {}
        self._bytes = 0
        self._request_bytes = REQUEST_BYTES
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
        metadata. `timestamp_ms` is now, unless given.

        Raises:
            KafkaError: the topic cannot be had, the record is refused, or an earlier batch failed.
        """
        if timestamp_ms is None:
            timestamp_ms = int(time.time() * 1000)
        if self._put(topic, value, key, headers, timestamp_ms, partition) is None:
            await self._put_soon(topic, value, key, headers, timestamp_ms, partition)
        self._sends += 1
        if not self._sends % SENDS_PER_CHECKPOINT:
            await trio.lowlevel.checkpoint()

    async def send_with_receipt(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """As `send`; the receipt's `wait` says where the record is, or raises why it is nowhere."""
        if timestamp_ms is None:
            timestamp_ms = int(time.time() * 1000)
        batch = self._put(topic, value, key, headers, timestamp_ms, partition)
        if batch is None:
            batch = await self._put_soon(topic, value, key, headers, timestamp_ms, partition)
        receipt = Receipt(batch, timestamp_ms)
        self._sends += 1
        if not self._sends % SENDS_PER_CHECKPOINT:
            await trio.lowlevel.checkpoint()
        return receipt

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivered:
        """As `send`; returns when the record is acknowledged, with where it is. Others that come within `linger_ms` go
        with it.

        Raises:
            KafkaError: as `send`, or the record cannot be delivered.
        """
        receipt = await self.send_with_receipt(
            topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
        )
        return await receipt.wait()

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
        batch = Batch(partition, None, is_numbered=False)
        batch.data, batch.bytes, batch.records = data, len(data), records
        self._bytes += batch.bytes
        self._queue(partition).add(batch)
        self._wake.set()

    async def send_encoded(self, partition: TopicPartition, data: bytes, records: int) -> Receipt:
        """Takes a whole batch of the current format without a producer, as `_core.Mirror` makes it; the sequence is
        this producer's, as with `send`. The receipt is that of its last record; `flush` and the next call raise what
        went wrong all the same. Otherwise as `send_batch`.
        """
        self._raise()
        while self._bytes >= self.memory_bytes:
            await self._progress.wait()
            self._raise()
        batch = Batch(partition, None, is_numbered=self.idempotent)
        batch.data, batch.bytes, batch.records = data, len(data), records
        receipt = Receipt(batch, -1)
        # Of all its records there is none whose error the receipts alone would tell.
        batch.receipts = 0
        self._bytes += batch.bytes
        self._queue(partition).add(batch)
        self._wake.set()
        return receipt

    async def flush(self) -> None:
        """Waits until everything taken so far was acknowledged.

        Raises:
            KafkaError: some of it cannot be.
        """
        self._close_all()
        while self._bytes:
            await self._progress.wait()
        self._raise()

    async def progress(self) -> None:
        """Waits until the fate of something that was taken is known next: it was acknowledged, or cannot be."""
        if self._bytes:
            await self._progress.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _put(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        partition: int | None,
    ) -> Batch | None:
        """Takes a record if that needs no waiting; gives its batch. All that one call per record costs is here."""
        if self._bytes >= self.memory_bytes or self._problem is not None:
            return None
        if partition is not None:
            if not 0 <= partition < self._counts.get(topic, 0):
                return None
            to = TopicPartition(topic, partition)
        else:
            known = self.cluster.metadata.topics.get(topic)
            if known is None:
                return None
            described, all_of_it = self._partitions.get(topic, _UNKNOWN)
            if described is not known:
                all_of_it = tuple(TopicPartition(topic, number) for number in range(len(known.partitions)))
                self._partitions[topic] = known, all_of_it
            if key is not None:
                to = all_of_it[(murmur2(key) & 0x7FFFFFFF) % len(all_of_it)]  # as `keyed`, without a call more
            elif (sticky := self._sticky.get(topic)) is not None:
                to = sticky
            else:
                to = self._sticky[topic] = random.choice(all_of_it)
        batch = self._open.get(to)
        if batch is None:
            batch = self._open[to] = Batch(to, self._new_builder(to), is_numbered=self.idempotent)
            if len(self._open) == 1:
                self._wake.set()
        builder = batch.builder
        assert builder is not None
        try:
            builder.append(
                timestamp_ms, key, value, [(name, content) for name, content in headers] if headers else _NO_HEADERS
            )
        except BaseException:
            if not batch.records:
                del self._open[to]
            raise
        size = builder.size_bytes
        self._bytes += size - batch.bytes
        batch.bytes = size
        batch.records += 1
        self.newest = batch
        if size >= self.batch_bytes:
            self._close(to)
            self._wake.set()
        return batch

    async def _put_soon(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        partition: int | None,
    ) -> Batch:
        """The same when it is possible."""
        while True:
            self._raise()
            if (batch := self._put(topic, value, key, headers, timestamp_ms, partition)) is not None:
                return batch
            if self._bytes >= self.memory_bytes:
                self._close_all()
                await self._progress.wait()
            elif partition is not None:
                await self._count(TopicPartition(topic, partition))
            elif topic not in self.cluster.metadata.topics:
                await self.cluster.topic(topic, create=True)

    async def _count(self, partition: TopicPartition) -> None:
        """Notes how many partitions the topic has. Raises UnknownTopicOrPartition: not as many as this needs."""

        async def look() -> None:
            count = len((await self.cluster.topic(partition.topic, create=True)).partitions)
            if not 0 <= partition.partition < count:
                # It may have been added just now.
                self.cluster.forget([partition.topic])
                raise lacks(partition, count)
            self._counts[partition.topic] = count

        await self.cluster.retry(look)

    def _queue(self, partition: TopicPartition) -> Queue:
        if (found := self._queues.get(partition)) is None:
            found = self._queues[partition] = Queue()
        return found

    def _new_builder(self, partition: TopicPartition) -> _core.BatchBuilder:
        return _core.BatchBuilder(compression=self.compression)

    def _close(self, partition: TopicPartition) -> None:
        batch = self._open.pop(partition)
        if self._sticky.get(partition.topic) == partition:
            del self._sticky[partition.topic]
        batch.finish()
        self._bytes += len(batch.data) - batch.bytes
        batch.bytes = len(batch.data)
        self._queue(partition).add(batch)

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
            if ripening := [batch.born for partition, batch in self._open.items() if not self._waits(partition)]:
                deadline = min(ripening) + self.linger_ms / 1000
            if any(queue.waiting for queue in self._queues.values()):
                # For partitions without a leader; those whose leader is busy are woken by its answer.
                deadline = min(deadline, trio.current_time() + RETRY_MS / 1000)
            if any(lane.requests for lane in self._lanes.values()):
                deadline = min(deadline, trio.current_time() + SILENT_MS / 1000)
            with trio.move_on_at(deadline):
                await self._wake.wait()
            for leader, lane in self._lanes.items():
                if lane.is_silent and not lane.is_doubted:
                    lane.is_doubted = True
                    nursery.start_soon(self._doubt, leader, lane)
            aged = trio.current_time() - self.linger_ms / 1000
            # One that others of its partition are before grows on: more small requests would only make it later.
            ripe = [each for each, batch in self._open.items() if batch.born <= aged and not self._waits(each)]
            for partition in ripe:
                self._close(partition)

    def _waits(self, partition: TopicPartition) -> bool:
        queue = self._queues.get(partition)
        return queue is not None and bool(queue.waiting)

    async def _dispatch(self, nursery: trio.Nursery) -> None:
        """Starts a request to each leader that may have another one and for which batches wait."""
        requests: dict[Address, list[Batch]] = {}
        sizes: dict[Address, int] = {}
        for partition, queue in list(self._queues.items()):
            while queue.waiting and trio.current_time() - queue.waiting[0].born > self.delivery_timeout_ms / 1000:
                late = queue.waiting.popleft()
                self._fail(late, _late(late, self.delivery_timeout_ms))
            if not queue.waiting:
                continue
            try:
                if queue.waiting[0].is_numbered and self.producer_id == NOBODY.producer_id:
                    await self._identify()
                leader = await self.cluster.leader(partition)
            except (KafkaError, OSError, RemoteProtocolError) as problem:
                if not queue.waiting:
                    continue  # the transaction was aborted meanwhile
                if isinstance(problem, KafkaError) and not problem.retriable:
                    self._fail(queue.waiting.popleft(), problem)
                else:
                    queue.waiting[0].problem = problem
                continue
            lane = self._lanes.setdefault(leader, _Lane())
            if not lane.is_free:
                continue
            if leader in sizes and sizes[leader] + queue.waiting[0].bytes > self._request_bytes:
                continue
            if queue.may_send(leader, self._identity, trio.current_time()):
                requests.setdefault(leader, []).append(queue.take(leader, self._identity))
                sizes[leader] = sizes.get(leader, 0) + requests[leader][-1].bytes
        for leader, batches in requests.items():
            lane = self._lanes[leader]
            lane.is_sending = True
            lane.only = lane.connection if lane.requests else None
            waiting = {batch.partition: batch for batch in batches}
            lane.requests.append(waiting)
            nursery.start_soon(self._send, leader, lane, waiting)

    @property
    def _identity(self) -> Identity:
        return Identity(self.producer_id, self.producer_epoch)

    async def _identify(self) -> None:
        """Asks any broker for an id."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=REQUEST_TIMEOUT_MS)
        answer = await self.cluster.ask(INIT_PRODUCER_ID, request)
        check(answer.error_code, "a producer id")
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def _send(self, leader: Address, lane: _Lane, waiting: dict[TopicPartition, Batch]) -> None:
        try:
            await self._carry(leader, lane, waiting)
        except KafkaError as problem:  # of the connection: this broker does not take us
            for batch in list(waiting.values()):
                self._refused(batch, problem)
            waiting.clear()
        except (OSError, RemoteProtocolError) as problem:
            again = [batch for batch in waiting.values() if isinstance(batch.problem, ConnectionLost)]
            if again and isinstance(problem, ConnectionLost):
                await self._refuse_too_large(leader, waiting)
            for batch in waiting.values():
                batch.problem = problem
        finally:
            lane.is_sending = False
            lane.requests = [each for each in lane.requests if each is not waiting]
            if waiting:
                self.cluster.forget({partition.topic for partition in waiting})
                for batch in waiting.values():
                    self._returned(batch, retry_at=trio.current_time() + RETRY_MS / 1000)
            self._wake.set()

    async def _doubt(self, leader: Address, lane: _Lane) -> None:
        """A broker that stands still closes no connection: what it was sent is sent to the one that leads now."""
        try:
            with suppress(KafkaError, OSError, RemoteProtocolError):
                await self.cluster.refresh({partition.topic for waiting in lane.requests for partition in waiting})
                known = self.cluster.metadata
                others = known.brokers.keys() - {each for each, address in known.brokers.items() if address == leader}
                has_moved = any(
                    known.leaders.get(partition) in others for waiting in lane.requests for partition in waiting
                )
                if has_moved and lane.is_silent:
                    await lane.give_up()
            await trio.sleep(SILENT_MS / 1000)
        finally:
            lane.is_doubted = False

    async def _refuse_too_large(self, leader: Address, waiting: dict[TopicPartition, Batch]) -> None:
        """A broker has closed the connection twice: it may have been for the size of the request."""
        from ottla.client.limits import request_bytes_max, too_large

        bytes_max = await request_bytes_max(self.cluster, leader)
        if bytes_max is None:
            return
        self._request_bytes = min(self._request_bytes, bytes_max)
        for partition, batch in list(waiting.items()):
            if batch.bytes > bytes_max:
                del waiting[partition]
                what = f"{partition}: {counted(batch.records, 'record')}"
                self._refused(batch, too_large(what, batch.bytes, bytes_max))

    async def _carry(self, leader: Address, lane: _Lane, waiting: dict[TopicPartition, Batch]) -> None:
        """One request and its answer. Takes out of `waiting` what is decided."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for partition, batch in waiting.items():
            topics.setdefault(partition.topic, []).append(
                PartitionProduceData(partition_index=partition.partition, records=batch.data)
            )
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self.acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topics=[TopicProduceData(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        connection = await lane.connected(self.cluster, leader)
        if lane.only is not None and connection is not lane.only:
            raise ConnectionLost("the connection ended while requests were under way")
        lane.connection = connection
        if self.acks == 0:
            await connection.post(PRODUCE, request)
            for batch in waiting.values():
                self._done(batch)
            waiting.clear()
            return
        answer = await connection.send(PRODUCE, request, timeout_ms=REQUEST_TIMEOUT_MS)
        lane.is_sending = False
        self._wake.set()
        answered = await answer()
        for batch in waiting.values():
            batch.problem = RemoteProtocolError(f"the answer of {leader} says nothing of {batch.partition}")
        self._answered(answered, waiting)

    def _answered(self, answer: ProduceResponse, waiting: dict[TopicPartition, Batch]) -> None:
        """Takes out of `waiting` what is decided, or to be sent again at once."""
        for topic in answer.responses:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if (batch := waiting.get(partition)) is None:
                    continue  # nobody has asked about it
                # A batch that is known, but no longer where it is: one of several attempts, of which an earlier came.
                if not each.error_code or each.error_code == DuplicateSequenceNumber.code:
                    batch.base_offset = each.base_offset if not each.error_code else -1
                    batch.append_time_ms = each.log_append_time_ms
                    self._done(waiting.pop(partition))
                    continue
                problem = error(each.error_code, f"{partition}: {each.error_message or ''}".rstrip(": "))
                batch.problem = problem
                if isinstance(problem, MessageTooLarge):
                    number = counted(batch.records, "record")
                    problem = MessageTooLarge(f"{problem}: {number} in {counted(len(batch.data), 'byte')}")
                if problem.retriable:
                    continue
                del waiting[partition]
                if isinstance(problem, OUT_OF_SEQUENCE) and batch.sequence is not None:
                    is_first = self._queues[partition].is_first(batch)
                    if self._may_begin_again or not is_first:
                        self._returned(batch, begins_again=is_first)
                        continue
                self._refused(batch, problem)

    def _done(self, batch: Batch) -> None:
        self.acknowledged += batch.records
        self._landed(batch.partition, self._queues[batch.partition].decided(batch))
        batch.end()
        self._left(batch)

    def _refused(self, batch: Batch, problem: KafkaError) -> None:
        """A batch that was under way cannot be delivered."""
        self._landed(batch.partition, self._queues[batch.partition].decided(batch, is_acknowledged=False))
        self._fail(batch, problem)

    def _returned(self, batch: Batch, *, retry_at: float = 0.0, begins_again: bool = False) -> None:
        queue = self._queues[batch.partition]
        self._landed(batch.partition, queue.returned(batch, retry_at=retry_at, begins_again=begins_again))

    def _landed(self, partition: TopicPartition, begins_again: bool) -> None:
        """The next epoch needs no broker's leave where there is no transaction (KIP-360); after the last one comes
        another id.
        """
        if begins_again and self._queues[partition].identity == self._identity:
            if self.producer_epoch < EPOCH_MAX:
                self.producer_epoch += 1
            else:
                self.producer_id, self.producer_epoch = NOBODY

    def _fail(self, batch: Batch, problem: KafkaError) -> None:
        if batch.receipts < batch.records:
            self._problem = self._problem or problem
        batch.end(problem)
        self._left(batch)

    def _left(self, batch: Batch) -> None:
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
            for batch in [*self._open.values(), *(batch for queue in self._queues.values() for batch in queue)]:
                batch.end(NetworkException(f"{batch.partition}: the producer was closed first"))


def _late(batch: Batch, timeout_ms: float) -> NetworkException:
    """The error of a batch whose time is over, with what last stood in its way."""
    late = f"{batch.partition}: not delivered within {timeout_ms:,g} ms"
    match batch.problem:
        case None:
            return NetworkException(late)
        case KafkaError() as answer:
            why = str(answer).removeprefix(str(batch.partition)).removeprefix(": ")
            return NetworkException(f"{late}; the last answer was {answer.name}" + (f" ({why})" if why else ""))
        case problem:
            return NetworkException(f"{late}; the last attempt failed: {problem}")
