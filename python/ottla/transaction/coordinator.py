"""The coordinator of transactional ids: what it does with each request, timeout and change of role.

One per broker, for the partitions of `__transaction_state` that this broker leads. Nothing here waits: an append is
started and what follows it is a callback, so that every step can be interleaved with every other one (and is, in
tests/transaction/test_model.py). Loading and the carrying of markers, which do wait, are in `service.py` and
`sender.py`.

Errors are Kafka's codes; PRODUCER_FENCED is what newer versions are told, handlers turn it into INVALID_PRODUCER_EPOCH
for older ones. Source: Apache Kafka 2.7's TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    ProducerFenced,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
    error,
)
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.transaction.outbox import Ending, Outbox
from ottla.transaction.records import encode_key, encode_value
from ottla.transaction.shard import Shard
from ottla.transaction.transaction import NO_PRODUCER_ID, PREPARED, State, Transaction, Transition

logger = logging.getLogger("ottla.transactions")

#: Tombstones in one batch: one of them is about 50 bytes, and a batch must stay below max.message.bytes.
EXPIRED_IN_ONE_BATCH = 1000

FINAL = (InvalidProducerIdMapping, InvalidTxnState, ProducerFenced)
"""Errors at which producers end."""

Answer = Callable[[int], None]
"""Is told the error code, 0 for none, exactly once."""


class StateLog(Protocol):
    """`__transaction_state`; `replication.internal_topic.InternalTopic` is one."""

    def partition_for(self, key: str) -> int: ...

    def append_then(
        self,
        index: int,
        leader_epoch: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[int, int], None],
    ) -> None: ...


class Coordinator:
    """All methods are called from one thread. Times are the system's, in ms: they stand in records.

    `wake` is called when there is something new to be carried or to be tried again. While `may_be_replaced` says that
    another broker may coordinate without this one's knowing, nothing is said for good that is not confirmed by a write.
    """

    def __init__(
        self,
        log: StateLog,
        now_ms: Callable[[], int],
        timeout_ms_max: int,
        *,
        wake: Callable[[], None] = lambda: None,
        may_be_replaced: Callable[[], bool] = lambda: False,
    ) -> None:
        self.outbox = Outbox()
        self._may_be_replaced = may_be_replaced
        self._wake = wake
        self.shards: dict[int, Shard] = {}
        self._log = log
        self._now_ms = now_ms
        self._timeout_ms_max = timeout_ms_max
        #: Every marker is written, but their Complete record could not be.
        self._unfinished: list[Ending] = []
        #: Who asked for the next transaction while the markers of the last one are being written. An answer of
        #: CONCURRENT_TRANSACTIONS would be right, but the markers take 1 ms, and clients come back after 20.
        self._parked: dict[Transaction, list[Callable[[], None]]] = {}

    # --- roles ---

    def elected(self, index: int, epoch: int) -> Shard:
        """This broker leads a partition now. The caller replays the log into the shard, then calls `loaded`."""
        self.resigned(index)
        shard = self.shards[index] = Shard(index, epoch)
        return shard

    def loaded(self, shard: Shard) -> None:
        """Opens a shard; what was decided before is carried out."""
        if not shard.current:
            return
        shard.loading = False
        for transaction in shard.prepared():
            self._carry_out(shard, transaction)

    def resigned(self, index: int) -> None:
        """This broker does not lead the partition any more."""
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.current = False
            self.outbox.drop(shard)
            self._unfinished = [each for each in self._unfinished if each.shard is not shard]
            for transaction in [each for each in self._parked if shard.transactions.get(each.transactional_id) is each]:
                self._release(transaction)

    def find(self, transactional_id: str) -> tuple[Shard, Transaction | None]:
        """Who coordinates an id here, and the id. Raises NotCoordinator, CoordinatorLoadInProgress."""
        shard = self.shards.get(self._log.partition_for(transactional_id))
        if shard is None:
            raise NotCoordinator
        if shard.loading:
            raise CoordinatorLoadInProgress
        return shard, shard.transactions.get(transactional_id)

    def _known(self, transactional_id: str) -> tuple[Shard, Transaction]:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        shard, transaction = self.find(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping
        return shard, transaction

    def _code(self, problem: KafkaError) -> int:
        """The error code for a request that is refused by what this broker remembers. A producer ends at FINAL ones,
        and a broker that was replaced may remember another transaction than the one that goes on.
        """
        return NotCoordinator.code if isinstance(problem, FINAL) and self._may_be_replaced() else problem.code

    # --- requests ---

    def needs_producer_id(self, transactional_id: str) -> bool:
        """True if `initialize` will hand out another producer id than the transactional id has, or a first one."""
        try:
            _, transaction = self.find(transactional_id)
        except KafkaError:
            return False
        return transaction is None or transaction.exhausted

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        new_producer_id: int,
        answer: Callable[[int, int, int], None],
    ) -> None:
        """InitProducerId. `answer(error code, producer id, epoch)`; `new_producer_id` is used if one is needed."""

        def refuse(code: int) -> None:
            answer(code, NO_PRODUCER_ID, NO_EPOCH)

        try:
            if not transactional_id:
                raise InvalidRequest("the transactional id is empty")
            if not 0 < timeout_ms <= self._timeout_ms_max:
                raise InvalidTransactionTimeout
            shard, transaction = self.find(transactional_id)
            now_ms = self._now_ms()
            if transaction is None:
                transaction = Transaction(transactional_id, new_producer_id, timeout_ms, now_ms)
                shard.transactions[transactional_id] = transaction
            transition = transaction.initialize(timeout_ms, expected, now_ms, new_producer_id)
        except KafkaError as problem:
            return refuse(self._code(problem))
        if transition.state is State.EMPTY:
            return self._append(
                shard,
                transaction,
                transition,
                lambda code: refuse(code) if code else answer(0, transition.producer_id, transition.epoch),
            )
        # The predecessor's transaction is aborted first; the client asks again until that is done.
        return self._append(shard, transaction, transition, lambda code: refuse(code or ConcurrentTransactions.code))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        answer: Answer,
        *,
        may_wait: bool = True,
    ) -> None:
        """AddPartitionsToTxn, and AddOffsetsToTxn with the group's partition of `__consumer_offsets`.

        `may_wait`: while the last transaction's markers are being written, the answer may wait for that, until the next
        `finish` at most.
        """
        transaction: Transaction | None = None
        try:
            shard, transaction = self._known(transactional_id)
            transition = transaction.add_partitions(producer_id, epoch, partitions, self._now_ms())
        except ConcurrentTransactions as problem:
            if transaction is None or transaction.state not in PREPARED or not may_wait:
                return answer(problem.code)
            again = partial(
                self.add_partitions, transactional_id, producer_id, epoch, partitions, answer, may_wait=False
            )
            self._parked.setdefault(transaction, []).append(again)
            return self._wake()
        except KafkaError as problem:
            return answer(self._code(problem))
        if transition is None:
            if not self._may_be_replaced():
                return answer(0)
            transition = transaction.confirm()
        return self._append(shard, transaction, transition, answer)

    def end(self, transactional_id: str, producer_id: int, epoch: int, commit: bool, answer: Answer) -> None:
        """EndTxn: answered when the decision is in the log; the markers follow."""
        try:
            shard, transaction = self._known(transactional_id)
            transition = transaction.end(producer_id, epoch, commit, self._now_ms())
        except KafkaError as problem:
            return answer(self._code(problem))
        if transition is None:
            if not self._may_be_replaced():
                return answer(0)
            transition = transaction.confirm()
        return self._append(shard, transaction, transition, answer)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """For each partition 0 if it is in the producer's open transaction, else an error code (KIP-890)."""
        try:
            _, transaction = self._known(transactional_id)
        except KafkaError as problem:
            return dict.fromkeys(partitions, self._code(problem))
        codes = transaction.verify(producer_id, epoch, partitions)
        if self._may_be_replaced():
            return {partition: code and NotCoordinator.code for partition, code in codes.items()}
        return codes

    # --- from time to time ---

    def abort_timed_out(self, shard: Shard) -> None:
        """Aborts what has been open for longer than its producer allowed, and fences that producer."""
        now_ms = self._now_ms()
        if shard.loading or not shard.current:
            return
        for transaction in [each for each in shard.transactions.values() if each.times_out(now_ms)]:
            logger.info("aborting %s: open for more than %d ms", transaction, transaction.timeout_ms)
            self._append(shard, transaction, transaction.abort_timed_out(now_ms), _nobody)

    def expire(self, shard: Shard, unused_ms: int) -> None:
        """Forgets the ids that nobody has used for so long."""
        before_ms = self._now_ms() - unused_ms
        if shard.loading or not shard.current:
            return
        expired = [each for each in shard.transactions.values() if each.expires(before_ms)]
        for start in range(0, len(expired), EXPIRED_IN_ONE_BATCH):
            self._append_tombstones(shard, expired[start : start + EXPIRED_IN_ONE_BATCH])

    def _append_tombstones(self, shard: Shard, expired: Sequence[Transaction]) -> None:
        transitions = [(transaction, transaction.expire()) for transaction in expired]

        def appended(code: int, _: int) -> None:
            if code:
                logger.warning("transactional ids of shard %d stay: %s", shard.index, error(code))
            for transaction, transition in transitions:
                if code:
                    transaction.failed(transition)
                else:
                    shard.forget(transaction)

        records: list[tuple[bytes, bytes | None]] = [
            (encode_key(transaction.transactional_id), None) for transaction, _ in transitions
        ]
        self._log.append_then(shard.index, shard.epoch, records, appended)

    def finish(self) -> None:
        """Tries again what could not be completed since the log took no record; lets nobody wait any longer."""
        unfinished, self._unfinished = self._unfinished, []
        for ending in unfinished:
            self.completed(ending)
        for transaction in tuple(self._parked):
            self._release(transaction)

    @property
    def has_unfinished(self) -> bool:
        """True if `finish` has something to do."""
        return bool(self._unfinished or self._parked)

    def _release(self, transaction: Transaction) -> None:
        for again in self._parked.pop(transaction, ()):
            again()

    # --- steps ---

    def _append(self, shard: Shard, transaction: Transaction, transition: Transition, answer: Answer) -> None:
        """Writes a transition down, then applies it. Its markers go out when a decision is safe."""

        def appended(code: int, _: int) -> None:
            code = _ANSWERS.get(code, code)
            if not shard.current:
                # What the log has, whoever leads now has read; this object is no one's any more.
                return answer(NotCoordinator.code)
            if code:
                transaction.failed(transition)
                return answer(code)
            transaction.committed(transition)
            answer(0)
            if transition.state in PREPARED:
                self._carry_out(shard, transaction)
            return None

        self._write(shard, transaction, transition, appended)

    def _write(
        self, shard: Shard, transaction: Transaction, transition: Transition, done: Callable[[int, int], None]
    ) -> None:
        record = (encode_key(transaction.transactional_id), encode_value(transition))
        self._log.append_then(shard.index, shard.epoch, [record], done)

    def _carry_out(self, shard: Shard, transaction: Transaction) -> None:
        ending = Ending(shard, transaction, transaction.complete(self._now_ms()))
        self.outbox.add(ending)
        self._wake()

    def completed(self, ending: Ending) -> None:
        """Every marker of an ending is written: so is its last record."""
        shard, transaction = ending.shard, ending.transaction

        def appended(code: int, _: int) -> None:
            if not shard.current:
                return
            if not code:
                transaction.committed(ending.transition)
                self._release(transaction)
            elif _ANSWERS.get(code, code) != NotCoordinator.code:
                # It stays pending, so that nothing else can come in between.
                logger.info("%s is not complete yet: %s", ending, error(code))
                self._unfinished.append(ending)
                self._wake()

        if shard.current:
            self._write(shard, transaction, ending.transition, appended)


def _nobody(code: int) -> None:
    """Takes the answer of an append that nobody waits for: one that fails is tried again next time."""


_ANSWERS = {
    UnknownTopicOrPartition.code: CoordinatorNotAvailable.code,
    NotEnoughReplicas.code: CoordinatorNotAvailable.code,
    NotEnoughReplicasAfterAppend.code: CoordinatorNotAvailable.code,
    RequestTimedOut.code: CoordinatorNotAvailable.code,
    NotLeaderOrFollower.code: NotCoordinator.code,
    StorageError.code: NotCoordinator.code,
    MessageTooLarge.code: UnknownServerError.code,
    RecordListTooLarge.code: UnknownServerError.code,
}
"""The error codes by which a client is told of an append that failed, by the code of that failure."""
