"""Produce (key 0): appends record batches to partitions.

Versions 0-2 carry message sets of formats v0 and v1; the log makes of them what the topic stores. Version 3: format v2
only, transactional id. 5: log start offset in the answer. 7: zstd. 8: record errors (KIP-467).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.verification import verify
from ottla.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.replication.delayed import ProduceResult, WaitingProduce
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla._core import AppendInfo, Request
    from ottla.broker.broker import Broker

VERSIONS = range(9)

#: The first version that carries record batches (format v2).
BATCHES_SINCE = 3

ALL = -1
#: The only client that may write to internal topics, as in Kafka.
ADMIN_CLIENT = "__admin_client"


def handle(broker: Broker, request: Request) -> None:
    produce = request.produce()
    acks = produce.acks
    if acks not in (0, 1, ALL):
        return _answer(request, acks, [_error(InvalidRequiredAcks)] * len(produce))
    asked = produce.partitions
    partitions = broker.replicas.partitions
    turn = broker.turn
    results: list[ProduceResult] = []
    waiting: _Waiting | None = None
    appended = False
    verified = verify(broker, produce) if produce.is_transactional else None
    if verified is not None and verified.error:
        return _answer(request, acks, [(verified.error, -1, -1, -1)] * len(produce))
    is_plain = acks != ALL and len(asked) == 1 and verified is None and request.api_version >= BATCHES_SINCE
    for index, (topic, number, has_records) in enumerate(asked):
        partition = partitions.get((topic, number))
        if partition is None:
            results.append(_error(UnknownTopicOrPartition))
            continue
        if not partition.is_leader:
            results.append((partition.leader_error(-1), -1, -1, -1))
            continue
        if partition.is_internal and request.client_id != ADMIN_CLIENT:
            results.append(_error(InvalidTopic))
            continue
        if not has_records:
            # An empty message set was no mistake.
            results.append(_error(InvalidRecord) if request.api_version >= BATCHES_SINCE else (0, -1, -1, -1))
            continue
        if acks == ALL and not partition.has_enough_replicas:
            results.append((NotEnoughReplicas.code, -1, -1, partition.log.start_offset))
            continue
        guard = 0
        if verified is not None:
            if error := verified.errors.get(index):
                code, words = error
                start = partition.log.start_offset
                results.append((code, -1, -1, start, (), words) if words else (code, -1, -1, start))
                continue
            guard = verified.guards.get(index, 0)
        token = broker.server.token()
        try:
            info = partition.log.append(produce, index, partition.leader_epoch, token, guard)
        except KafkaError as refused:
            results.append(_refused(broker, partition, refused))
            continue
        if partition.lease is None and is_plain:
            # The next ones are like this one.
            broker.leases.grant(partition)
        if info is not None:
            appended = True
            turn.appended[partition] = None
            results.append(info)
            if acks != ALL:
                continue
        else:
            results.append(_error(RequestTimedOut))
        if waiting is None:
            waiting = _Waiting(broker, request, acks, results, produce.timeout_ms)
        if info is None:
            waiting.append_later(index, partition, token)
        else:
            waiting.appended_in_turn(index, partition)
    if waiting is not None:
        turn.put_off((waiting.turn_ended, asked, results))
    elif not appended:
        return _answer(request, acks, results)
    elif acks:
        turn.put_off((request.reply_produce, asked, results))
    else:
        turn.put_off((partial(_answer, request, acks), asked, results))
    if waiting is None or not waiting.appends:
        # The next Produce of this connection may start: it is appended behind this one.
        request.appended()
    return None


class _Waiting(WaitingProduce):
    """A Produce that cannot be answered at the end of its turn: it waits for appends on an I/O thread, for the high
    watermark, or for the disk.
    """

    __slots__ = ("_acks", "_broker", "_in_turn", "_request", "_timeout_ms", "appends")

    def __init__(
        self, broker: Broker, request: Request, acks: int, results: list[ProduceResult], timeout_ms: int
    ) -> None:
        super().__init__(results, lambda settled: _answer(request, acks, settled), RequestTimedOut.code)
        self._broker = broker
        self._request = request
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._in_turn: list[tuple[int, Partition]] = []
        #: Appends that are not done.
        self.appends = 0

    def append_later(self, index: int, partition: Partition, token: int) -> None:
        """The append of partition `index` runs on an I/O thread, which reports under `token`."""
        self.wait_for(index)
        self.appends += 1

        def appended(info: AppendInfo | None, error: BaseException | None) -> None:
            self.appends -= 1
            if self.appends == 0 and not self.done:
                # Only now may the next Produce of this connection start (it would overtake this one otherwise).
                self._request.appended()
            if info is not None:
                self._appended(index, partition, info)
            else:
                assert isinstance(error, KafkaError), error
                self.settled(index, _refused(self._broker, partition, error))

        self._broker.server.expect(token, appended)

    def appended_in_turn(self, index: int, partition: Partition) -> None:
        """Partition `index` has its offsets, and is written when the turn ends."""
        self.wait_for(index)
        self._in_turn.append((index, partition))

    def turn_ended(self, results: list[ProduceResult]) -> None:
        for index, partition in self._in_turn:
            result = results[index]
            if isinstance(result, tuple):
                self.settled(index, result)
            else:
                self._appended(index, partition, result)
        self.registered()
        if not self.done:
            self._broker.deadlines.add(self._timeout_ms, self)

    def _appended(self, index: int, partition: Partition, info: AppendInfo) -> None:
        """Partition `index` is appended: what is left to wait for is the high watermark and the disk."""
        partition.advance_high_watermark()
        if info.flush_due and self._acks != ALL:
            self._broker.replicas.flush(partition)
        if self._acks != ALL:
            return self.settled(index, info)

        def durable(error: int) -> None:
            if error:
                self.settled(index, (error, -1, -1, -1))
            elif not partition.has_enough_replicas:
                self.settled(index, _error(NotEnoughReplicasAfterAppend))
            else:
                self.settled(index, info)

        if partition.wait_durable(info.last_offset, durable):
            self._broker.replicas.flush(partition)
        return None


def _error(error: type[KafkaError]) -> tuple[int, int, int, int]:
    return (error.code, -1, -1, -1)


def _refused(broker: Broker, partition: Partition, error: KafkaError) -> ProduceResult:
    if isinstance(error, StorageError):
        broker.replicas.storage_error(partition, error)
    if error.record_errors:
        return (error.code, -1, -1, partition.log.start_offset, error.record_errors, str(error))
    start = -1 if error.code in _WITHOUT_LOG_START else partition.log.start_offset
    return (error.code, -1, -1, start)


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
    failed = next((result[0] for result in results if isinstance(result, tuple)), 0)
    if failed:
        # Nobody reads an answer here: closing the connection is the only way to tell the producer that its metadata is
        # old.
        return request.close(f"a Produce with acks=0 failed with error {failed}")
    return request.skip()
