"""Produce (key 0): appends record batches to partitions.

Versions 0-2 carry message sets of formats v0 and v1, which are not stored yet: they are answered with
UNSUPPORTED_FOR_MESSAGE_FORMAT, but stay advertised, because librdkafka before 2.11.1 drops compression where they are
missing (KAFKA-18659). Version 3: format v2, transactional id. 5: log start offset in the answer. 7: zstd. 8: record
errors (KIP-467).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.verification import verify
from ottla.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    StorageError,
    UnknownProducerId,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
)
from ottla.replication.delayed import ProduceResult, WaitingProduce
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla._core import AppendInfo, Request
    from ottla.broker.broker import Broker

VERSIONS = range(9)

ALL = -1


def handle(broker: Broker, request: Request) -> None:
    produce = request.produce()
    acks = produce.acks
    if acks not in (0, 1, ALL):
        return _answer(request, acks, [_error(InvalidRequiredAcks)] * len(produce))
    if request.api_version < 3:
        return _answer(request, acks, [_error(UnsupportedForMessageFormat)] * len(produce))
    partitions = broker.replicas.partitions
    server = broker.server
    results: list[ProduceResult] = []
    waiting: _Waiting | None = None
    verified = verify(broker, produce) if produce.is_transactional else None
    if verified is not None and verified.error:
        return _answer(request, acks, [(verified.error, -1, -1, -1)] * len(produce))
    for index, (topic, number, has_records) in enumerate(produce.partitions):
        partition = partitions.get((topic, number))
        if partition is None:
            results.append(_error(UnknownTopicOrPartition))
            continue
        if not partition.is_leader:
            results.append((partition.leader_error(-1), -1, -1, -1))
            continue
        if not has_records:
            results.append(_error(InvalidRecord))
            continue
        if acks == ALL and not partition.has_enough_replicas:
            results.append(_error(NotEnoughReplicas))
            continue
        token = server.next_token
        guard = 0
        if verified is not None:
            if error := verified.errors.get(index):
                results.append((error, -1, -1, -1))
                continue
            guard = verified.guards.get(index, 0)
        try:
            info = partition.log.append(produce, index, partition.leader_epoch, token, guard)
        except KafkaError as refused:
            results.append(_refused(broker, partition, refused))
            continue
        if info is not None and acks != ALL:
            partition.advance_high_watermark()
            if info.flush_due:
                broker.replicas.flush(partition)
            results.append(info)
            continue
        if waiting is None:
            waiting = _Waiting(broker, request, acks, results)
        results.append(_error(RequestTimedOut))
        if info is None:
            waiting.append_later(index, partition)
        else:
            waiting.wait_for(index)
            waiting.appended(index, partition, info)
    if waiting is None:
        return _answer(request, acks, results)
    return waiting.registered_all(produce.timeout_ms)


class _Waiting(WaitingProduce):
    """A Produce that cannot be answered yet: it waits for appends on an I/O thread, for the high watermark, or for the
    disk.
    """

    __slots__ = ("_acks", "_appends", "_broker", "_request")

    def __init__(self, broker: Broker, request: Request, acks: int, results: list[ProduceResult]) -> None:
        super().__init__(results, lambda settled: _answer(request, acks, settled), RequestTimedOut.code)
        self._broker = broker
        self._request = request
        self._acks = acks
        self._appends = 1  # the request itself, until all of its partitions are registered

    def append_later(self, index: int, partition: Partition) -> None:
        """The append of partition `index` runs on an I/O thread."""
        self.wait_for(index)
        self._appends += 1

        def appended(info: AppendInfo | None, error: BaseException | None) -> None:
            self._append_done()
            if info is not None:
                self.appended(index, partition, info)
            else:
                assert isinstance(error, KafkaError), error
                self.settled(index, _refused(self._broker, partition, error))

        self._broker.server.expect(appended)

    def _append_done(self) -> None:
        self._appends -= 1
        if self._appends == 0 and not self.done:
            # Only now may the next Produce of this connection start (it would overtake this one otherwise).
            self._request.appended()

    def appended(self, index: int, partition: Partition, info: AppendInfo) -> None:
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

    def registered_all(self, timeout_ms: int) -> None:
        self._append_done()
        self.registered()
        if not self.done:
            self._broker.deadlines.add(timeout_ms, self)


def _error(error: type[KafkaError]) -> tuple[int, int, int, int]:
    return (error.code, -1, -1, -1)


def _refused(broker: Broker, partition: Partition, error: KafkaError) -> ProduceResult:
    if isinstance(error, StorageError):
        broker.replicas.storage_error(partition, error)
    if error.record_errors:
        return (error.code, -1, -1, -1, error.record_errors, str(error))
    start = partition.log.start_offset if error.code in _WITH_LOG_START else -1
    return (error.code, -1, -1, start)


#: Errors whose answer tells where the log starts, so that a producer can tell lost records from lost state (KIP-360).
_WITH_LOG_START = frozenset({OutOfOrderSequenceNumber.code, UnknownProducerId.code})


def _answer(request: Request, acks: int, results: list[ProduceResult]) -> None:
    if acks != 0:
        return request.reply_produce(results)
    failed = next((result[0] for result in results if isinstance(result, tuple)), 0)
    if failed:
        # Nobody reads an answer here: closing the connection is the only way to tell the producer that its metadata is
        # old.
        return request.close(f"a Produce with acks=0 failed with error {failed}")
    return request.skip()
