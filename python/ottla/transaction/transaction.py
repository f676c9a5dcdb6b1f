"""One transactional id: its state, and every way in which that state may change. No I/O, no clock.

Every change goes in two steps, because it counts only when `__transaction_state` has it. A request is checked here and
gives a `Transition`, which the caller appends to the log; until the outcome is known the id is *pending* and refuses
whatever else would change it (CONCURRENT_TRANSACTIONS: the client asks again). `committed` then applies the transition,
`failed` takes it back.

    Empty ──add partitions──▶ Ongoing ──end──▶ PrepareCommit ──markers──▶ CompleteCommit ──add partitions──▶ Ongoing
                                      ──end, timeout, newer producer──▶ PrepareAbort ──markers──▶ CompleteAbort

The decision is made with the Prepare record, and nothing can change it after that: whoever coordinates next reads the
record and writes the same markers again. A producer is fenced by a higher epoch; whoever has an older one never
changes anything. A timeout or a newer producer that finds a transaction open raises the epoch together with the abort,
and no client is ever told of that epoch.

Source: Apache Kafka 2.7's TransactionMetadata and TransactionCoordinator; KIP-98, KIP-360, KIP-588.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from ottla.kafka import NO_EPOCH, TopicPartition

NO_PRODUCER_ID = -1
NO_TIME = -1
EPOCH_MAX = 2**15 - 1

"""Topic and index."""


class State(IntEnum):
    """The numbers are those of the log's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id has expired; on its way out."""
    PREPARE_EPOCH_FENCE = 7
    """Between two steps of Kafka's coordinator, which are one step here; it never reaches a log."""

    @property
    def label(self) -> str:
        """As Kafka's tools and APIs write it: `PrepareCommit`."""
        return _LABELS[self]


_LABELS = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in State}
BY_LABEL = {label: state for state, label in _LABELS.items()}

PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
AT_REST = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""No transaction is open, so another producer may take over and the id may expire."""


class Transition(NamedTuple):
    """The next state of a transactional id: the content of one record, and what only memory keeps."""

    state: State
    producer_id: int
    epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    started_ms: int
    updated_ms: int
    last_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    #: The epoch was raised against the producer that has the transaction open.
    fences: bool = False


class Transaction:
    """A transactional id and its latest transaction. For one thread, or one trio run."""

    __slots__ = (
        "epoch",
        "fence_failed",
        "last_epoch",
        "last_producer_id",
        "partitions",
        "pending",
        "producer_id",
        "started_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "updated_ms",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        #: The ones before, for a producer that repeats an InitProducerId whose answer it lost (KIP-360).
        self.last_producer_id = NO_PRODUCER_ID
        #: -1: nobody was ever told of this id.
        self.epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH
        self.timeout_ms = timeout_ms
        self.state = State.EMPTY
        #: While prepared: those whose marker is still to be written.
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.started_ms = NO_TIME
        self.updated_ms = now_ms
        #: The state of the transition that was handed out and is neither committed nor failed yet.
        self.pending: State | None = None
        #: The epoch was raised to fence, but its record may be missing in the log: do not raise it again.
        self.fence_failed = False

    @classmethod
    def loaded(cls, transactional_id: str, record: Transition) -> Transaction:
        """As the log has it."""
        transaction = cls(transactional_id, record.producer_id, record.timeout_ms, record.updated_ms)
        transaction.epoch = record.epoch
        transaction.state = record.state
        transaction.partitions = record.partitions
        transaction.started_ms = record.started_ms
        return transaction

    def __repr__(self) -> str:
        pending = f", pending {self.pending.label}" if self.pending is not None else ""
        return f"{self.transactional_id} ({self.state.label}{pending}, producer {self.producer_id} epoch {self.epoch})"

    # --- requests ---

    @property
    def exhausted(self) -> bool:
        """True if the next producer needs another producer id. The last epoch is for fencing, so no client has it."""
        return self.epoch >= EPOCH_MAX - 1

    def initialize(
        self, timeout_ms: int, expected: tuple[int, int] | None, now_ms: int, new_producer_id: int = NO_PRODUCER_ID
    ) -> Transition:
        """InitProducerId: a producer takes over. A transition to PrepareAbort means that its predecessor's transaction
        is being aborted: the answer is CONCURRENT_TRANSACTIONS, and the client asks again.

        `expected` is the (producer id, epoch) of a producer that goes on after an error; `new_producer_id` is used if
        this one's epochs are `exhausted`. Raises ConcurrentTransactions, ProducerFenced.
        """
        self._check_not_pending()
        if expected is not None and not self._knows(*expected):
            raise ProducerFenced
        if self.state in PREPARED:
            raise ConcurrentTransactions
        if self.state is State.ONGOING:
            return self._fence(now_ms)
        expected_epoch = None if expected is None else expected[1]
        producer_id = self.producer_id
        if self.exhausted and expected_epoch in (None, self.epoch):
            producer_id = new_producer_id
            epoch, last_epoch = 0, NO_EPOCH if expected is None else self.epoch
        elif expected_epoch is None:
            epoch, last_epoch = self.epoch + 1, NO_EPOCH
        elif expected_epoch == self.epoch or self.epoch == NO_EPOCH:
            epoch, last_epoch = self.epoch + 1, self.epoch
        elif expected_epoch == self.last_epoch:
            # It asks again since the answer was lost. A producer that came in between would have left -1.
            epoch, last_epoch = self.epoch, self.last_epoch
        else:
            raise ProducerFenced
        return self._begin(
            Transition(
                State.EMPTY,
                producer_id,
                epoch,
                timeout_ms,
                frozenset(),
                NO_TIME,
                now_ms,
                self.producer_id,
                last_epoch,
            )
        )

    def _knows(self, producer_id: int, epoch: int) -> bool:
        """True if a producer that names this id and epoch may be this one (its epoch is looked at later)."""
        return (
            self.epoch == NO_EPOCH
            or producer_id == self.producer_id
            or (producer_id == self.last_producer_id and epoch >= EPOCH_MAX - 1)
        )

    def add_partitions(
        self, producer_id: int, epoch: int, partitions: Collection[TopicPartition], now_ms: int
    ) -> Transition | None:
        """AddPartitionsToTxn and AddOffsetsToTxn: opens a transaction, or widens it. None: it has them already.

        Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions.
        """
        self._check_producer(producer_id, epoch)
        self._check_not_pending()
        if self.state in PREPARED:
            raise ConcurrentTransactions
        if self.state is State.ONGOING and self.partitions.issuperset(partitions):
            return None
        started_ms = self.started_ms if self.state is State.ONGOING else now_ms
        return self._begin(
            self._changed(State.ONGOING, now_ms)._replace(
                partitions=self.partitions.union(partitions), started_ms=started_ms
            )
        )

    def end(self, producer_id: int, epoch: int, commit: bool, now_ms: int) -> Transition | None:
        """EndTxn: the producer's decision. None: it was carried out already, the client repeats itself.

        Raises InvalidProducerIdMapping, ProducerFenced, ConcurrentTransactions, InvalidTxnState.
        """
        self._check_producer(producer_id, epoch)
        self._check_not_pending()
        if self.state is State.ONGOING:
            return self._begin(self._changed(State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, now_ms))
        if self.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
            raise ConcurrentTransactions
        if self.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
            return None
        raise InvalidTxnState(f"{self} cannot be {'committed' if commit else 'aborted'}")

    def verify(self, producer_id: int, epoch: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """For each partition 0 if the open transaction has it, else an error code (KIP-890).

        A pending change does not matter: the partition's log looks again when it appends.
        """
        if producer_id != self.producer_id:
            code = InvalidProducerIdMapping.code
        elif epoch != self.epoch:
            # Not PRODUCER_FENCED: the answer is a Produce's, and older clients know only this one there.
            code = InvalidProducerEpoch.code
        elif self.state in PREPARED:
            code = ConcurrentTransactions.code
        else:
            return {each: 0 if each in self.partitions else InvalidTxnState.code for each in partitions}
        return dict.fromkeys(partitions, code)

    def confirm(self) -> Transition:
        """The same state once more: if it can be written, it is still true."""
        return self._begin(self._changed(self.state, self.updated_ms))

    # --- what the coordinator does by itself ---

    def times_out(self, now_ms: int) -> bool:
        """True if its transaction has been open for longer than its producer allowed."""
        return self.state is State.ONGOING and self.pending is None and self.started_ms + self.timeout_ms < now_ms

    def abort_timed_out(self, now_ms: int) -> Transition:
        """Aborts, and fences the producer that let it time out."""
        return self._fence(now_ms)

    def expires(self, updated_before_ms: int) -> bool:
        """True if nobody has used the id since then and nothing is open."""
        return self.state in AT_REST and self.pending is None and self.updated_ms <= updated_before_ms

    def expire(self) -> Transition:
        """To be appended as a tombstone; when that is committed, the id is forgotten."""
        return self._begin(self._changed(State.DEAD, self.updated_ms)._replace(partitions=frozenset()))

    def complete(self, now_ms: int) -> Transition:
        """From Prepare to Complete: pending until every marker is written, then to be appended."""
        state = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        assert self.state in PREPARED
        return self._begin(self._changed(state, now_ms)._replace(partitions=frozenset()))

    def markers_written(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions have their marker, or are gone."""
        assert self.state in PREPARED
        self.partitions = self.partitions.difference(partitions)

    # --- outcomes ---

    def committed(self, transition: Transition) -> None:
        """The transition's record is in the log for good."""
        assert self.pending is transition.state is not State.DEAD, f"{self} was not to become {transition}"
        assert transition.producer_id != self.producer_id or transition.epoch >= self.epoch, f"{self}: {transition}"
        self.pending = None
        self.state = transition.state
        self.producer_id = transition.producer_id
        self.epoch = transition.epoch
        self.timeout_ms = transition.timeout_ms
        self.partitions = transition.partitions
        self.started_ms = transition.started_ms
        self.updated_ms = transition.updated_ms
        if transition.state is State.EMPTY:
            self.last_producer_id = transition.last_producer_id
            self.last_epoch = transition.last_epoch
        elif transition.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            self.fence_failed = False

    def failed(self, transition: Transition) -> None:
        """The transition's record may or may not be in the log; as far as this coordinator knows, nothing changed."""
        assert self.pending is transition.state, f"{self} was not to become {transition}"
        self.pending = None
        if transition.fences:
            self.fence_failed = True

    # --- parts ---

    def _check_not_pending(self) -> None:
        if self.pending is not None:
            raise ConcurrentTransactions

    def _check_producer(self, producer_id: int, epoch: int) -> None:
        if producer_id != self.producer_id:
            raise InvalidProducerIdMapping
        if epoch != self.epoch:
            raise ProducerFenced

    def _fence(self, now_ms: int) -> Transition:
        """The abort of an open transaction under a new epoch. The old one is refused from now on, not only from when
        the record is written: whether it was, may stay unknown.
        """
        assert self.state is State.ONGOING
        assert self.pending is None
        if not self.fence_failed:
            assert self.epoch < EPOCH_MAX
            self.epoch += 1
        self.last_epoch = NO_EPOCH
        return self._begin(self._changed(State.PREPARE_ABORT, now_ms)._replace(fences=True))

    def _changed(self, state: State, now_ms: int) -> Transition:
        return Transition(
            state,
            self.producer_id,
            self.epoch,
            self.timeout_ms,
            self.partitions,
            self.started_ms,
            now_ms,
            self.producer_id,
            self.last_epoch,
        )

    def _begin(self, transition: Transition) -> Transition:
        assert self.pending is None
        self.pending = transition.state
        return transition
