"""The appends of one Produce, from the first one to the answer (Kafka's DelayedProduce).

A Produce is answered once, when the results of all its partitions are final: with acks=0 when the turn of its appends
has written them, with acks=1 when also a flush is done that became due, with acks=all when they are safe. An append
that an I/O thread does is final later. What is not final at the deadline is answered with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla._core import ProduceRow
from ottla.errors import (
    CorruptMessage,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.kafka import ACKS_ALL
from ottla.replication.appends import appended, when_flushed, when_safe

if TYPE_CHECKING:
    from ottla._core import AppendInfo
    from ottla.net import Server
    from ottla.replication.delayed import Deadlines
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.replication.turn import Lost, Turn

#: A partition's part of a Produce answer: what was appended, or why nothing was.
ProduceResult: TypeAlias = "AppendInfo | ProduceRow"

#: Errors that say nothing of the log. The answer of all others tells where it starts, so that a producer can tell lost
#: records from lost state (KIP-360, `ReplicaManager.appendToLocalLog`).
_WITHOUT_LOG_START = frozenset(
    error.code
    for error in (
        CorruptMessage,
        MessageTooLarge,
        NotLeaderOrFollower,
        RecordListTooLarge,
        StorageError,
        UnknownTopicOrPartition,
        UnsupportedCompressionType,
    )
)


class Rooms(Protocol):
    """The parts of the broker that appends go through."""

    replicas: Replicas
    server: Server
    deadlines: Deadlines
    turn: Turn


class DelayedProduce:
    """The caller names the partitions of the request in their order: each by `settle`, `appended` or `append_later`.
    Then it calls `named`. `answer` takes the results, once, perhaps before `named` returns.

    `all_appended` is called as soon as no append is left to be done: the next Produce of the connection may start then,
    and is appended behind this one. It is not called where nothing was appended.
    """

    __slots__ = (
        "_acks",
        "_all_appended",
        "_answer",
        "_in_turn",
        "_open",
        "_results",
        "_rooms",
        "_timeout_ms",
        "_turn_is_over",
        "_under_way",
        "done",
    )
    purgatory = "Produce"

    def __init__(
        self,
        rooms: Rooms,
        acks: int,
        timeout_ms: int,
        answer: Callable[[list[ProduceResult]], None],
        all_appended: Callable[[], object],
    ) -> None:
        self._rooms = rooms
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._answer = answer
        self._all_appended = all_appended
        self._results: list[ProduceResult] = []
        #: The places of results that are not final.
        self._open: set[int] = set()
        #: What was appended in this turn, by place.
        self._in_turn: list[tuple[int, Partition]] = []
        #: Appends that I/O threads do.
        self._under_way = 0
        self._turn_is_over = False
        self.done = False

    # --- naming partitions ---

    def settle(self, result: ProduceRow) -> None:
        """Nothing is appended to the next partition."""
        self._results.append(result)

    def refuse(self, partition: Partition, error: KafkaError) -> None:
        """The append to the next partition failed."""
        self._results.append(_refused(self._rooms.replicas, partition, error))

    def appended(self, partition: Partition, info: AppendInfo) -> None:
        """The records of the next partition have their offsets, and are written when the turn ends."""
        self._rooms.turn.appended.setdefault(partition, info.losses)
        place = len(self._results)
        self._in_turn.append((place, partition))
        if self._acks == ACKS_ALL:
            self._open.add(place)
        self._results.append(info)

    def append_later(self, partition: Partition, token: int) -> None:
        """An I/O thread appends to the next partition, and reports under `token`."""
        place = len(self._results)
        self._open.add(place)
        self._under_way += 1
        self._results.append(ProduceRow(RequestTimedOut.code))
        self._rooms.server.expect(token, partial(self._reported, place, partition))

    def named(self) -> None:
        """All partitions are named."""
        if not self._in_turn and not self._open:
            self._finish()
            return
        self._rooms.turn.at_end(self._turn_ended)
        if not self._under_way:
            self._all_appended()

    # --- what becomes of appends ---

    def _turn_ended(self, lost: Lost) -> None:
        for place, partition in self._in_turn:
            info = self._results[place]
            assert not isinstance(info, ProduceRow)
            unwritten = lost.get((partition.topic, partition.index)) if lost else None
            if unwritten is not None and unwritten.has(info):
                self._settled(place, ProduceRow(unwritten.error.code))
            elif self._acks == ACKS_ALL:
                when_safe(self._rooms.replicas, partition, info, partial(self._safe, place))
            elif self._acks and info.last_offset >= partition.log.settled_offset:
                self._open.add(place)
                when_flushed(self._rooms.replicas, partition, info, partial(self._safe, place))
        self._in_turn.clear()
        self._turn_is_over = True
        if not self._open:
            self._finish()
        else:
            self._rooms.deadlines.add(self._timeout_ms, self)

    def _reported(self, place: int, partition: Partition, info: AppendInfo | None, error: BaseException | None) -> None:
        self._under_way -= 1
        if not self._under_way and not self.done:
            # The next Produce would have overtaken this one before.
            self._all_appended()
        replicas = self._rooms.replicas
        if info is None:
            assert isinstance(error, KafkaError), error
            self._settled(place, _refused(replicas, partition, error))
        elif not self._acks:
            appended(replicas, partition, info)
            self._settled(place, info)
        else:
            if not self.done:
                self._results[place] = info
            safe = partial(self._safe, place)
            if self._acks == ACKS_ALL:
                return appended(replicas, partition, info, safe)
            appended(replicas, partition, info)
            when_flushed(replicas, partition, info, safe)
        return None

    def _safe(self, place: int, error: int) -> None:
        if not self.done:
            self._settled(place, ProduceRow(error) if error else self._results[place])

    def _settled(self, place: int, result: ProduceResult) -> None:
        if self.done:
            return
        self._results[place] = result
        self._open.discard(place)
        if self._turn_is_over and not self._open:
            self._finish()

    def expire(self) -> None:
        """Answers for those that are late."""
        for place in self._open:
            self._results[place] = ProduceRow(RequestTimedOut.code)
        self._open.clear()
        if not self.done:
            self._finish()

    def _finish(self) -> None:
        self.done = True
        # The deadline keeps this object for seconds, but not the request that it answers.
        answer, results = self._answer, self._results
        self._answer, self._all_appended, self._results = _nobody, _nothing, []
        answer(results)


def _refused(replicas: Replicas, partition: Partition, error: KafkaError) -> ProduceRow:
    if isinstance(error, StorageError):
        replicas.storage_error(partition, error)
    if error.record_errors:
        return ProduceRow(
            error.code,
            log_start_offset=partition.log.start_offset,
            record_errors=error.record_errors,
            message=str(error),
        )
    start = -1 if error.code in _WITHOUT_LOG_START else partition.log.start_offset
    return ProduceRow(error.code, log_start_offset=start)


def _nobody(results: list[ProduceResult]) -> None:
    """Takes no answer any more."""


def _nothing() -> None:
    """Has heard of all appends."""
