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
from ottla.broker.verification import lacking, may_write, verify
from ottla.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    NotEnoughReplicas,
    TopicAuthorizationFailed,
)
from ottla.kafka import ACKS_ALL, NO_EPOCH
from ottla.replication.delayed_produce import DelayedProduce, ProduceResult
from ottla.slices import ROWS, Slices
from ottla.wire.k00_produce import BATCHES_SINCE
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import ProduceRequest, Request
    from ottla.broker.call import AnyCall
    from ottla.broker.rooms import ProduceRooms

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
    rights = call.rights
    if rights is not None:
        refused = lacking(rights, produce) or refused
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
    results = DelayedProduce(rooms, acks, timeout_ms, answer, all_appended)
    verified = verify(rooms, produce, start, asked) if produce.is_transactional else None
    rights = call.rights
    is_plain = len(produce) == 1 and verified is None and call.version >= BATCHES_SINCE
    for index, (topic, number, has_records) in enumerate(asked):
        if rights is not None and not rights.may(Operation.WRITE, Resource.TOPIC, topic):
            results.settle(ProduceRow(TopicAuthorizationFailed.code))
            continue
        partition = partitions.get((topic, number))
        if partition is None:
            results.settle(ProduceRow(rooms.metadata.error_where_absent(topic, number)))
            continue
        if not partition.is_leader:
            results.settle(ProduceRow(partition.leader_error(NO_EPOCH)))
            continue
        if partition.is_internal and call.client_id != ADMIN_CLIENT:
            results.settle(ProduceRow(InvalidTopic.code))
            continue
        if not has_records:
            # An empty message set was no mistake.
            results.settle(ProduceRow(InvalidRecord.code if call.version >= BATCHES_SINCE else 0))
            continue
        log_start = partition.log.start_offset
        if acks == ACKS_ALL and not partition.has_enough_replicas:
            results.settle(ProduceRow(NotEnoughReplicas.code, log_start_offset=log_start))
            continue
        guard = 0
        if verified is not None:
            if error := verified.errors.get(index):
                code, words = error
                results.settle(ProduceRow(code, log_start_offset=log_start, message=words))
                continue
            guard = verified.guards.get(index, 0)
        token = rooms.server.token()
        try:
            info = partition.log.append(produce, start + index, partition.leader_epoch, token, guard)
        except KafkaError as refused:
            results.refuse(partition, refused)
            continue
        if partition.lease is None and is_plain and (acks != ACKS_ALL or not partition.needs_flush):
            # The next ones are like this one.
            rooms.leases.grant(partition)
        if rights is not None and partition.lease is not None and verified is None:
            rights.tell_writer(partition.lease, call.request)
        if info is not None:
            results.appended(partition, info)
        else:
            results.append_later(partition, token)
    results.named()


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
