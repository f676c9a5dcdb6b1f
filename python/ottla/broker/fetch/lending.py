"""Lends fetch sessions to the hub, which serves the plain requests in them without asking (`rust/direct/session.rs`).

A session is lent after an answer, if all of its partitions have leases. The hub asks for these again at each request,
and hands on what it does not serve. Then the session is taken back, before anything is decided (`FetchSessions.get`).

A follower's session is lent while it is in sync everywhere. Its Fetches then move high watermarks in the hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.replication.in_sync import UNKNOWN_OFFSET, now_ms

if TYPE_CHECKING:
    from ottla.broker.fetch.context import Context
    from ottla.broker.fetch.session import CachedPartition, FetchSession
    from ottla.replication.lease import Lease
    from ottla.replication.partition import Partition

#: The hub reads all partitions of a session at every request. Of more it is better to read those that moved, as is done
#: without a loan.
PARTITIONS_MAX: Final = 100


def lend(context: Context, session: FetchSession) -> None:
    """Lends a session, if its next request may be plain. Grants its partitions leases where they have none."""
    reader, follower = session.reader, session.follower
    if not 0 < len(session.entries) <= PARTITIONS_MAX or reader is None:
        return
    if session.is_closed or session.loan is not None or session.unanswered:
        return
    rooms, partitions = context.rooms, context.rooms.replicas.partitions
    quota, awaited = rooms.throttles.leader, rooms.replicas.awaited
    if follower is not None and (quota.is_used or awaited.is_awaited(follower)):
        return
    for key, entry in session.entries.items():
        partition = partitions.get(key)
        if partition is None or not partition.is_leader:
            return
        if not _is_plain(entry, partition, follower):
            return
        if partition.lease is None:
            rooms.leases.grant(partition)
        if partition.lease is None or not _may(context, partition.lease):
            return
    hub = rooms.server.hub
    number = session.id, session.epoch
    if follower is None:
        session.lend(lambda entries: hub.lend_session(number, reader, entries, PARTITIONS_MAX, now_ms(), None))
        return
    following = follower, context.request.connection_id, quota
    session.lend(
        lambda entries: hub.lend_session(number, reader, entries, PARTITIONS_MAX, now_ms(), following),
        lambda: awaited.unpark(follower, session),
    )
    # When it is awaited, it is taken back.
    awaited.park(follower, session, 0)


def _is_plain(entry: CachedPartition, partition: Partition, follower: int | None) -> bool:
    """The client may get the partition from the hub: a consumer that does not say the epoch of its
    last record, or a follower of which the leader has heard, and for which it waits as one in sync.
    """
    if follower is None:
        return entry.asked.last_fetched_epoch < 0
    known = None if partition.in_sync is None else partition.in_sync.followers.get(follower)
    return known is not None and known.is_member and known.end_offset != UNKNOWN_OFFSET


def _may(context: Context, lease: Lease) -> bool:
    """The client may do under a lease what it asks for."""
    if context.is_follower and not lease.terms.followers:
        return False
    if context.rights is None:
        return True
    tell = context.rights.tell_follower if context.is_follower else context.rights.tell_reader
    return tell(lease, context.request)
