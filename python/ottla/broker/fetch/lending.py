"""Lends fetch sessions to the hub, which serves the plain requests in them without asking (`rust/direct/session.rs`).

A session is lent after an answer, if all of its partitions have leases. The hub asks for these again at each request,
and hands on what it does not serve. Then the session is taken back, before anything is decided (`FetchSessions.get`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.replication.in_sync import now_ms

if TYPE_CHECKING:
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.session import FetchSession

#: The hub reads all partitions of a session at every request. Of more it is better to read those that moved, as is done
#: without a loan.
PARTITIONS_MAX: Final = 100


def lend(context: Context, session: FetchSession) -> None:
    """Lends a session, if its next request may be plain. Grants its partitions leases where they have none."""
    reader = session.reader
    if session.is_follower or not 0 < len(session.entries) <= PARTITIONS_MAX or reader is None:
        return
    if session.is_closed or session.loan is not None or session.unanswered:
        return
    rooms, partitions = context.rooms, context.rooms.replicas.partitions
    for key, entry in session.entries.items():
        partition = partitions.get(key)
        if partition is None or not partition.is_leader or entry.asked.last_fetched_epoch >= 0:
            return
        if partition.lease is None:
            rooms.leases.grant(partition)
        if partition.lease is None:
            return
        if context.rights is not None and not context.rights.tell_reader(partition.lease, context.request):
            return
    hub = rooms.server.hub
    number = session.id, session.epoch
    session.lend(lambda entries: hub.lend_session(number, reader, entries, PARTITIONS_MAX, now_ms()))
