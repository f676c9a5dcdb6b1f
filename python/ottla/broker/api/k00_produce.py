"""Produce (key 0): appends record batches to partitions.

Versions 0-2 carry message sets of formats v0 and v1; the log makes of them what the topic stores. Version 3: format v2
only, transactional id. 5: log start offset in the answer. 7: zstd. 8: record errors (KIP-467).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from ottla._core import ProduceRow
from ottla.broker.verification import may_write, verify
from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.kafka import ACKS_ALL, NO_EPOCH
from ottla.replication.appends import appended, when_safe
from ottla.replication.delayed import ProduceResult, WaitingProduce
from ottla.replication.partition import Partition
from ottla.slices import ROWS, Slices
from ottla.wire.k00_produce import BATCHES_SINCE

if TYPE_CHECKING:
    from ottla._core import AppendInfo, ProduceRequest, Request
    from ottla.broker.call import AnyCall
    from ottla.broker.rooms import ProduceRooms
    from ottla.replication.turn import Lost

#: Partitions of a request: topic, number, and whether it has records for it.
Asked: TypeAlias = tuple[tuple[str, int, bool], ...]
#: Takes the results of such partitions, in their order.
Answer: TypeAlias = "Callable[[list[ProduceResult]], None]"

#: The only client that may write to internal topics, as in Kafka.
ADMIN_CLIENT = "__admin_client"


def handle(call: AnyCall, rooms: ProduceRooms) -> None:
    produce = call.request.produce()
    acks = produce.acks
    refused = InvalidRequiredAcks.code if acks not in (0, 1, ACKS_ALL) else 0
    if not refused and produce.is_transactional:
        refused = may_write(produce)
    if len(produce) > ROWS:
        return call.in_background(_serve_many, call, rooms, produce, refused)
    answer = partial(_answer, call.request, acks)
    if refused:
        return answer([ProduceRow(refused)] * len(produce))
    return _serve(call, rooms, produce, 0, produce.partitions, produce.timeout_ms, answer, call.request.appended)


async def _serve_many(call: AnyCall, rooms: ProduceRooms, produce: ProduceRequest, refused: int) -> None:
    """Some rows after the other, each time as if there were no more, and the next when these are settled: all rows of
    a partition become safe in one go. Later Produces of the connection wait for the answer.
    """
    deadline = trio.current_time() + produce.timeout_ms / 1000
    failed, slices = 0, Slices()
    for start in range(0, len(produce), ROWS):
        asked = produce.some_partitions(start, start + ROWS)
        are_settled = trio.Event()

        def take(results: list[ProduceResult], settled: trio.Event = are_settled) -> None:
            nonlocal failed
            failed = failed or _first_error(results)
            call.request.put_results(results)
            settled.set()

        if refused:
            take([ProduceRow(refused)] * len(asked))
        else:
            left_ms = max(0, round((deadline - trio.current_time()) * 1000))
            _serve(call, rooms, produce, start, asked, left_ms, take, _not_yet)
            # The hub ends its turns itself; this task runs outside of them.
            rooms.turn.end()
        await are_settled.wait()
        await slices.row(len(asked))
    if produce.acks == 0:
        return _end_silently(call.request, failed)
    # The results are there already.
    return call.request.reply_produce([])


def _not_yet() -> None:
    """All rows so far are appended; not those of the request."""


def _serve(
    call: AnyCall,
    rooms: ProduceRooms,
    produce: ProduceRequest,
    start: int,
    asked: Asked,
    timeout_ms: int,
    answer: Answer,
    all_appended: Callable[[], object],
) -> None:
    """Appends the records of `asked`, which are the request's partitions from `start` on. `answer` takes the results
    when all are settled; `all_appended` is called before that, as soon as no append is left to be done.
    """
    acks = produce.acks
    partitions = rooms.replicas.partitions
    turn = rooms.turn
    results: list[ProduceResult] = []
    waiting: _Waiting | None = None
    appended = False
    verified = verify(rooms, produce, start, asked) if produce.is_transactional else None
    is_plain = acks != ACKS_ALL and len(produce) == 1 and verified is None and call.version >= BATCHES_SINCE
    for index, (topic, number, has_records) in enumerate(asked):
        partition = partitions.get((topic, number))
        if partition is None:
            results.append(ProduceRow(rooms.metadata.error_where_absent(topic, number)))
            continue
        if not partition.is_leader:
            results.append(ProduceRow(partition.leader_error(NO_EPOCH)))
            continue
        if partition.is_internal and call.client_id != ADMIN_CLIENT:
            results.append(_error(InvalidTopic))
            continue
        if not has_records:
            # An empty message set was no mistake.
            results.append(_error(InvalidRecord) if call.version >= BATCHES_SINCE else ProduceRow())
            continue
        if acks == ACKS_ALL and not partition.has_enough_replicas:
            results.append(ProduceRow(NotEnoughReplicas.code, log_start_offset=partition.log.start_offset))
            continue
        guard = 0
        if verified is not None:
            if error := verified.errors.get(index):
                code, words = error
                log_start = partition.log.start_offset
                results.append(ProduceRow(code, log_start_offset=log_start, message=words))
                continue
            guard = verified.guards.get(index, 0)
        token = rooms.server.token()
        try:
            info = partition.log.append(produce, start + index, partition.leader_epoch, token, guard)
        except KafkaError as refused:
            results.append(_refused(rooms, partition, refused))
            continue
        if partition.lease is None and is_plain:
            # The next ones are like this one.
            rooms.leases.grant(partition)
        if info is not None:
            appended = True
            turn.appended.setdefault(partition, info.losses)
            results.append(info)
            if acks != ACKS_ALL:
                continue
        else:
            results.append(_error(RequestTimedOut))
        if waiting is None:
            waiting = _Waiting(rooms, acks, asked, results, timeout_ms, answer, all_appended)
        if info is None:
            waiting.append_later(index, partition, token)
        else:
            waiting.appended_in_turn(index, partition)
    if waiting is not None:
        turn.at_end(waiting.turn_ended)
    elif not appended:
        answer(results)
        return
    else:
        turn.at_end(partial(_turn_ended, answer, asked, results))
    if waiting is None or not waiting.appends:
        # The next Produce of this connection may start: it is appended behind this one.
        all_appended()


class _Waiting(WaitingProduce):
    """A Produce that cannot be answered at the end of its turn: it waits for appends on an I/O thread, for the high
    watermark, or for the disk.
    """

    __slots__ = ("_acks", "_all_appended", "_asked", "_in_turn", "_rooms", "_timeout_ms", "appends")

    def __init__(
        self,
        rooms: ProduceRooms,
        acks: int,
        asked: Asked,
        results: list[ProduceResult],
        timeout_ms: int,
        answer: Answer,
        all_appended: Callable[[], object],
    ) -> None:
        super().__init__(results, answer, RequestTimedOut.code)
        self._rooms = rooms
        self._all_appended = all_appended
        self._acks = acks
        self._asked = asked
        self._timeout_ms = timeout_ms
        self._in_turn: list[tuple[int, Partition]] = []
        #: Appends that are not done.
        self.appends = 0

    def append_later(self, index: int, partition: Partition, token: int) -> None:
        """The append of partition `index` runs on an I/O thread, which reports under `token`."""
        self.wait_for(index)
        self.appends += 1

        def reported(info: AppendInfo | None, error: BaseException | None) -> None:
            self.appends -= 1
            if self.appends == 0 and not self.done:
                # Only now may the next Produce of this connection start (it would overtake this one otherwise).
                self._all_appended()
            if info is not None:
                self._appended(index, partition, info)
            else:
                assert isinstance(error, KafkaError), error
                self.settled(index, _refused(self._rooms, partition, error))

        self._rooms.server.expect(token, reported)

    def appended_in_turn(self, index: int, partition: Partition) -> None:
        """Partition `index` has its offsets, and is written when the turn ends."""
        self.wait_for(index)
        self._in_turn.append((index, partition))

    def turn_ended(self, lost: Lost) -> None:
        results = self._results
        _take_back(lost, self._asked, results)
        for index, partition in self._in_turn:
            result = results[index]
            if isinstance(result, ProduceRow):
                self.settled(index, result)
            else:
                self._written(index, partition, result)
        self.registered()
        if not self.done:
            self._rooms.deadlines.add(self._timeout_ms, self)

    def _written(self, index: int, partition: Partition, info: AppendInfo) -> None:
        """Partition `index` was appended to in the turn that ends: what is left is the high watermark and the disk."""
        if self._acks != ACKS_ALL:
            return self.settled(index, info)
        return when_safe(self._rooms.replicas, partition, info, self._safe(index, info))

    def _appended(self, index: int, partition: Partition, info: AppendInfo) -> None:
        """The same after an append on an I/O thread."""
        replicas = self._rooms.replicas
        if self._acks != ACKS_ALL:
            appended(replicas, partition, info)
            return self.settled(index, info)
        return appended(replicas, partition, info, self._safe(index, info))

    def _safe(self, index: int, info: AppendInfo) -> Callable[[int], None]:
        def safe(error: int) -> None:
            self.settled(index, ProduceRow(error) if error else info)

        return safe


def _turn_ended(answer: Answer, asked: Asked, results: list[ProduceResult], lost: Lost) -> None:
    """Answers a Produce that waited for nothing but its turn's end."""
    _take_back(lost, asked, results)
    answer(results)


def _take_back(lost: Lost, asked: Asked, results: list[ProduceResult]) -> None:
    """Puts the error in place of what was appended in this turn and could not be written."""
    if not lost:
        return
    for index, ((topic, number, _), result) in enumerate(zip(asked, results, strict=True)):
        unwritten = lost.get((topic, number))
        # Rows are errors already.
        if unwritten is not None and not isinstance(result, ProduceRow) and unwritten.has(result):
            results[index] = ProduceRow(unwritten.error.code)


def _error(error: type[KafkaError]) -> ProduceRow:
    return ProduceRow(error.code)


def _refused(rooms: ProduceRooms, partition: Partition, error: KafkaError) -> ProduceResult:
    if isinstance(error, StorageError):
        rooms.replicas.storage_error(partition, error)
    if error.record_errors:
        return ProduceRow(
            error.code,
            log_start_offset=partition.log.start_offset,
            record_errors=error.record_errors,
            message=str(error),
        )
    start = -1 if error.code in _WITHOUT_LOG_START else partition.log.start_offset
    return ProduceRow(error.code, log_start_offset=start)


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


def _answer(request: Request, acks: int, results: list[ProduceResult]) -> None:
    if acks != 0:
        return request.reply_produce(results)
    return _end_silently(request, _first_error(results))


def _first_error(results: list[ProduceResult]) -> int:
    return next((result.error_code for result in results if isinstance(result, ProduceRow) and result.error_code), 0)


def _end_silently(request: Request, error: int) -> None:
    """Ends a Produce with acks=0, whose answer nobody reads."""
    if error:
        # Closing the connection is the only way to tell the producer that its metadata is old.
        return request.close(f"a Produce with acks=0 failed with error {error}")
    return request.skip()
