"""Records out in transactions: all of them are read, in all of their partitions, or none is (KIP-98).

    async with TransactionalProducer(cluster, "orders-to-invoices") as producer:
        async with producer.transaction():
            await producer.send("invoices", b"...")
            await producer.send_offsets("group", {TopicPartition("orders", 0): 42})

A transactional id has one producer at a time: entering the block takes the id over and aborts what an earlier producer
of it left open; that one is fenced (ProducerFenced, InvalidProducerEpoch) from then on. What may pass is tried again
for the cluster's `timeout_ms`; after any other error the transaction can only be aborted.

The decision may also be made elsewhere, for many producers at once: each calls `prepare` and hands what that gives to
whoever decides, who calls `end_transaction`. The records are safe by then, and the transaction stays open for its
timeout.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import trio

from ottla import _core
from ottla.client.batches import Batch, Receipt
from ottla.client.cluster import Address, Cluster
from ottla.client.coordinators import find_coordinator, while_coordinator
from ottla.client.producer import RETRY_MS, Producer, _Lane
from ottla.errors import (
    ConcurrentTransactions,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    OperationNotAttempted,
    RemoteProtocolError,
    check,
    error,
)
from ottla.kafka import COORDINATOR_OF_GROUP, COORDINATOR_OF_TRANSACTION, TopicPartition
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.schema import Api, Request, Response

BUSY_RETRY_MS = 20
"""While the coordinator carries out the end of the transaction before."""
TIMEOUT_MS = 60_000

Errors = Mapping[str, int]
"""Codes of an answer, by what they are about."""


class Prepared(NamedTuple):
    """A transaction whose records are all acknowledged, to be ended by `end_transaction`. Plain values: it may be
    stored or sent anywhere.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool
    """Nothing was written: there is nothing to end."""


async def end_transaction(cluster: Cluster, prepared: Prepared, *, commit: bool) -> None:
    """Commits or aborts what some producer has prepared. May be repeated, with the same decision.

    Raises:
        ProducerFenced, InvalidProducerEpoch: it has timed out, or a newer producer has taken the transactional id; the
        transaction is aborted. InvalidTxnState: the other decision was made.
    """
    await _end(_Coordinator(cluster, prepared.transactional_id, COORDINATOR_OF_TRANSACTION), prepared, commit)


async def _end(coordinator: "_Coordinator", prepared: Prepared, commit: bool) -> None:
    if not prepared.is_empty:
        request = EndTxnRequest(
            transactional_id=prepared.transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            committed=commit,
        )
        await coordinator.call(END_TXN, request)


async def add_partitions(cluster: Cluster, prepared: Prepared, partitions: Iterable[TopicPartition]) -> None:
    """Adds partitions to an open transaction. With those that it has, nothing changes: a way to ask if it is open.

    Raises:
        ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping: it is not, and was aborted.
    """
    await _add_partitions(
        _Coordinator(cluster, prepared.transactional_id, COORDINATOR_OF_TRANSACTION), prepared, partitions
    )


async def _add_partitions(
    coordinator: "_Coordinator", prepared: Prepared, partitions: Iterable[TopicPartition]
) -> None:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    request = AddPartitionsToTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
    )

    def errors(answer: AddPartitionsToTxnResponse) -> Errors:
        return {
            str(TopicPartition(topic.name, row.partition_index)): row.error_code
            for topic in answer.results
            for row in topic.results
        }

    await coordinator.call(ADD_PARTITIONS_TO_TXN, request, errors)


async def fence(cluster: Cluster, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> tuple[int, int]:
    """Takes a transactional id over: its open transaction is aborted, its producer fenced. Gives producer id and
    epoch.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )
    coordinator = _Coordinator(cluster, transactional_id, COORDINATOR_OF_TRANSACTION)
    answer = await coordinator.call(INIT_PRODUCER_ID, request)
    return answer.producer_id, answer.producer_epoch


class TransactionalProducer(Producer):
    """`Producer` whose records are sent in transactions; `send` and `flush` are the same, inside of one.

    Settings as for `Producer`; acks is always all, and it is idempotent. After `transaction_timeout_ms` the coordinator
    aborts by itself.
    """

    # A transaction whose sequence is lost is aborted, after which the coordinator gives the next epoch.
    _may_begin_again = False

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, transaction_timeout_ms: int = TIMEOUT_MS, **settings: Any
    ) -> None:
        if not settings.setdefault("idempotent", True):
            raise ValueError("a transactional producer is idempotent")
        super().__init__(cluster, **settings)
        self.transactional_id = self._transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self._coordinator = _Coordinator(cluster, transactional_id, COORDINATOR_OF_TRANSACTION)
        self._groups: dict[str, _Coordinator] = {}
        self._is_open = False
        #: What the coordinator knows to be part of the transaction.
        self._added: set[TopicPartition] = set()
        self._has_offsets = False
        #: Calls that add partitions to the transaction, and whether one was given up: it may have added some.
        self._adding: set[trio.CancelScope] = set()
        self._is_doubted = False
        #: Why the transaction can only be aborted.
        self._broken: KafkaError | None = None
        #: Sequence numbers are lost: the next transaction needs a new epoch.
        self._has_gap = False

    # --- transactions ---

    def begin(self) -> None:
        """Opens a transaction. Raises InvalidTxnState if one is open."""
        if self._is_open:
            raise InvalidTxnState("a transaction is open already")
        self._is_open = True

    async def prepare(self) -> Prepared:
        """Waits until every record is acknowledged and leaves the end to whoever calls `end_transaction`, before which
        this producer must not begin again.

        Raises:
            KafkaError: some record cannot be written; abort.
        """
        self._check_open()
        await self.flush()
        self._check_open()
        prepared = Prepared(self.transactional_id, self.producer_id, self.producer_epoch, not self._has_anything)
        self._ended()
        return prepared

    async def commit(self) -> None:
        """Ends the transaction: its records will be read. Errors as `prepare` and `end_transaction`."""
        await _end(self._coordinator, await self.prepare(), True)

    async def abort(self, *, is_last: bool = False) -> None:
        """Ends the transaction: its records will not be read. Afterwards the producer is as new; with `is_last` it
        cannot be used any more, and does not wait until the coordinator has carried out the end.

        Raises:
            ProducerFenced, InvalidProducerEpoch: another producer has the id.
        """
        if not self._is_open:
            raise InvalidTxnState("no transaction is open")
        await self._discard()
        # What failed may have reached the coordinator nevertheless.
        is_empty = not self._has_anything and self._broken is None
        prepared = Prepared(self.transactional_id, self.producer_id, self.producer_epoch, is_empty)
        has_gap = self._has_gap
        self._ended()
        with suppress(InvalidTxnState):
            await _end(self._coordinator, prepared, False)
        if has_gap and not is_last:
            await self._initialize()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commits at the end of the block; an exception aborts and goes on."""
        self.begin()
        try:
            yield
            prepared = await self.prepare()
        except BaseException:
            limit = trio.move_on_after(self.cluster.timeout_ms / 1000, shield=True)
            # If that fails it will time out; the exception that led here tells more.
            with limit, suppress(KafkaError, OSError):
                await self.abort()
            raise
        await _end(self._coordinator, prepared, True)

    async def send_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
    ) -> None:
        """Commits offsets (of the next record to be read) of a group as part of the transaction. With `member_id` and
        `generation` a member that was replaced is refused (KIP-447).
        """
        self._check_open()
        added = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
        )
        await self._coordinator.call(ADD_OFFSETS_TO_TXN, added)
        self._has_offsets = True
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            row = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            topics.setdefault(topic, []).append(row)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

        def errors(answer: TxnOffsetCommitResponse) -> Errors:
            return {
                str(TopicPartition(topic.name, row.partition_index)): row.error_code
                for topic in answer.topics
                for row in topic.partitions
            }

        if group not in self._groups:
            self._groups[group] = _Coordinator(self.cluster, group, COORDINATOR_OF_GROUP)
        await self._groups[group].call(TXN_OFFSET_COMMIT, request, errors)

    # --- what Producer asks for ---

    async def send(self, *arguments: Any, **options: Any) -> None:
        """As `Producer.send`. Raises InvalidTxnState outside of a transaction."""
        self._check_open()
        await super().send(*arguments, **options)

    async def send_with_receipt(self, *arguments: Any, **options: Any) -> Receipt:
        """As `Producer.send_with_receipt`. Raises InvalidTxnState outside of a transaction."""
        self._check_open()
        return await super().send_with_receipt(*arguments, **options)

    async def send_encoded(self, partition: TopicPartition, data: bytes, records: int) -> Receipt:
        """As `Producer.send_encoded`. Raises InvalidTxnState outside of a transaction."""
        self._check_open()
        return await super().send_encoded(partition, data, records)

    def _new_builder(self, partition: TopicPartition) -> _core.BatchBuilder:
        return _core.BatchBuilder(compression=self.compression, transactional=True)

    async def _carry(self, leader: Address, lane: _Lane, waiting: dict[TopicPartition, Batch]) -> None:
        try:
            await self._announce(waiting.keys() - self._added)
        except (OSError, RemoteProtocolError) as problem:
            raise NetworkException(str(problem)) from problem
        await super()._carry(leader, lane, waiting)

    async def _announce(self, partitions: set[TopicPartition]) -> None:
        """The coordinator must know of a partition before it is written to."""
        if not partitions:
            return
        here = Prepared(self.transactional_id, self.producer_id, self.producer_epoch, is_empty=False)
        with trio.CancelScope() as scope:
            self._adding.add(scope)
            try:
                await _add_partitions(self._coordinator, here, partitions)
            finally:
                self._adding.discard(scope)
        if scope.cancelled_caught:
            self._is_doubted = True
            raise NetworkException("the transaction is aborted")
        self._added |= partitions

    def _fail(self, batch: Batch, problem: KafkaError) -> None:
        self._broken = self._broken or problem
        self._has_gap = True
        super()._fail(batch, problem)

    # --- parts ---

    @property
    def _has_anything(self) -> bool:
        return bool(self._added or self._has_offsets or self._is_doubted)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidTxnState("no transaction is open: `begin` opens one")
        if self._broken is not None:
            raise error(self._broken.code, f"the transaction can only be aborted: {self._broken}")

    def _ended(self) -> None:
        self._is_open, self._broken, self._has_offsets, self._has_gap = False, None, False, False
        self._is_doubted = False
        self._added.clear()

    async def _discard(self) -> None:
        """Drops what is not sent, and waits for what is on its way."""
        # The coordinator may wait for the end of the transaction before, and that for a leader.
        for scope in self._adding:
            scope.cancel()
        for partition in list(self._open):
            self._close(partition)
        while self._bytes:
            # What failed comes back to be sent again: it is dropped as well.
            for queue in self._queues.values():
                while queue.waiting:
                    batch = queue.waiting.popleft()
                    # Of those that bring their own sequence nobody knows here.
                    self._has_gap |= batch.sequence is not None or not batch.is_numbered
                    batch.end(NetworkException(f"{batch.partition}: the transaction was aborted"))
                    self._left(batch)
            if self._bytes:
                with trio.move_on_after(RETRY_MS / 1000):
                    await self._progress.wait()
        self._problem = None

    async def _initialize(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )
        answer = await self._coordinator.call(INIT_PRODUCER_ID, request)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def __aenter__(self) -> Self:
        await self._initialize()
        await super().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_open:
            # Neither committed nor aborted: the next producer of this id aborts it, or its timeout.
            await self._discard()
        await super().__aexit__(kind, problem, trace)


class _Coordinator:
    """The broker that coordinates a key, found when it is needed and again when it has moved."""

    def __init__(self, cluster: Cluster, key: str, kind: int) -> None:
        self._cluster = cluster
        self._key = key
        self._kind = kind
        self._address: Address | None = None

    async def call(
        self, api: Api[Request, Response], message: Request, errors: Callable[[Response], Errors] | None = None
    ) -> Response:
        """Asks until the answer is not one that passes. `errors` gives the codes in it by what they are about; without
        it the answer has one. Raises KafkaError, OSError.
        """
        deadline = trio.current_time() + self._cluster.timeout_ms / 1000

        async def once() -> Response:
            if self._address is None:
                self._address = (await find_coordinator(self._cluster, self._key, self._kind)).address
            address = self._address

            async def ask() -> Response:
                connection = await self._cluster.connection(address)
                return await connection.call(api, message, timeout_ms=self._cluster.timeout_ms)

            try:
                answer = await while_coordinator(self._cluster, self._key, address, ask, self._kind)
                self._check({"": answer.error_code} if errors is None else errors(answer))  # type: ignore[attr-defined]
            except ConcurrentTransactions:
                raise
            except (KafkaError, OSError, RemoteProtocolError):
                self._address = None
                raise
            return answer

        while True:
            try:
                return await self._cluster.retry(once)
            except ConcurrentTransactions:
                if trio.current_time() > deadline:
                    raise
                await trio.sleep(BUSY_RETRY_MS / 1000)

    def _check(self, errors: Errors) -> None:
        """Raises the first error. That the others kept something from being tried tells nothing."""
        for about, code in errors.items():
            if code != OperationNotAttempted.code:
                check(code, f"{self._key!r}: {about}".removesuffix(": "))
        for code in errors.values():
            check(code, f"{self._key!r}")
