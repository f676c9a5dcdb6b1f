"""A Fetch that names everything it wants: without a session, or the first of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.fetch import incremental, old
from ottla.broker.fetch.read import Reading
from ottla.broker.fetch.session import INITIAL_EPOCH, NO_SESSION
from ottla.broker.fetch.wait import WaitingFetch
from ottla.slices import are_few
from ottla.wire.k01_fetch import BATCHES_SINCE

if TYPE_CHECKING:
    from ottla._core import PartitionToRead
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.result import FetchResult


def serve(context: Context) -> None:
    fetch = context.fetch
    if fetch.session_id != NO_SESSION:
        # A client that asks for everything has done with its session.
        context.rooms.fetch_sessions.remove(fetch.session_id)
    count = len(fetch)
    if are_few(count):
        return _serve(context, fetch.partitions)
    asked: list[PartitionToRead] = []
    return context.in_slices(
        count,
        lambda start, stop: asked.extend(fetch.piece(start, stop)),
        lambda: _serve(context, asked),
    )


def _serve(context: Context, asked: Sequence[PartitionToRead]) -> None:
    def read(result: FetchResult) -> None:
        rows = result.rows
        if len(rows) == 1 and not rows[0].error_code:
            partition = context.rooms.replicas.partitions.get(asked[0].key)
            if partition is not None and partition.is_leader and partition.lease is None:
                # The next plain ones need not be asked about.
                context.rooms.leases.grant(partition)
        missing = context.bytes_min - result.size
        if missing <= 0 or context.fetch.max_wait_ms <= 0 or result.is_due or not rows:
            return _answer(context, asked, result)
        return _wait(context, asked, result, missing)

    Reading(context, asked, read).start()


def _wait(context: Context, asked: Sequence[PartitionToRead], result: FetchResult, missing: int) -> None:
    def again() -> None:
        answer = partial(_answer, context, asked, may_wait=False)
        Reading(context, asked, answer, is_again=True).start()

    WaitingFetch(context, missing, again).park(asked, result.rows)


def _answer(context: Context, asked: Sequence[PartitionToRead], result: FetchResult, *, may_wait: bool = True) -> None:
    request = context.request
    if throttle_ms := context.throttle_ms(result):
        return request.reply_fetch([], throttle_ms=throttle_ms)
    context.answered(result)
    if context.version < BATCHES_SINCE:

        def wait(result: FetchResult) -> None:
            _wait(context, asked, result, context.bytes_min)

        return old.answer(context, asked, result, wait if may_wait else None)
    if context.fetch.session_epoch == INITIAL_EPOCH:
        return incremental.begin(
            context, asked, result, lambda session_id: request.reply_fetch(result.rows, session_id=session_id)
        )
    return request.reply_fetch(result.rows)
