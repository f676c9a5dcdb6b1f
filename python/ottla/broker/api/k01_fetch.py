"""Fetch (key 1): reads whole record batches; waits until `min_bytes` are there or `max_wait_ms` are over.

Versions 0-3 want message sets of formats v0 and v1: what is newer is converted. 4: isolation level. 5: log start
offset. 7: sessions (KIP-227). 9: leader epoch (KIP-320). 10: zstd. 11: rack (KIP-392). 12: flexible; a client that says
the epoch of its last record is told where its log parts from this one (KIP-595).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.fetch import full, incremental
from ottla.broker.fetch.context import Context
from ottla.broker.fetch.session import FINAL_EPOCH, INITIAL_EPOCH

if TYPE_CHECKING:
    from ottla.broker.call import AnyCall
    from ottla.broker.rooms import FetchRooms


def handle(call: AnyCall, rooms: FetchRooms) -> None:
    fetch = call.request.fetch()
    context = Context(call, rooms, fetch)
    if fetch.is_follower and context.may_follow:
        call.request.mark_broker()
        rooms.replicas.fetches_on(call.request.connection_id, fetch.replica_id)
    if fetch.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return full.serve(context)
    return incremental.serve(context)
