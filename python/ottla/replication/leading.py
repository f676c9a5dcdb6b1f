"""The side of the leader: what follows for a partition from what it learns of its followers.

A follower tells what it has with each Fetch. Time passes in which it does not come nearer, its connection ends, and the
controller answers a change of the ISR. Each of these changes what is known (`in_sync.py`, which decides), and then the
same has to be seen to: a lease whose terms are not true any more ends before anything else happens, a change of the ISR
is proposed, and the high watermark moves.

All functions take the partition, and do nothing where this broker does not lead it or no other replica is assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

import msgspec

from ottla.replication.in_sync import UNKNOWN_OFFSET

if TYPE_CHECKING:
    from ottla.replication.in_sync import InSync, Proposal
    from ottla.replication.partition import Partition

# --- what followers tell ---


def followed(
    partition: Partition, follower: int, end_offset: int, start_offset: int, leader_end_offset: int, now_ms: int
) -> bool:
    """Notes that a follower has fetched from `end_offset` on, and was told no error. The leader's log ended at
    `leader_end_offset` when it was read. False if the partition is not assigned to that broker.
    """
    in_sync = partition.in_sync
    if in_sync is None:
        return False
    known = in_sync.followers.get(follower)
    started = None if known is None else known.start_offset
    if not in_sync.fetched(follower, end_offset, start_offset, leader_end_offset, now_ms):
        return False
    # Before an expansion is proposed, or the follower counts: the hub would move the high watermark past it.
    partition.check_lease()
    _take_in(partition, in_sync, follower)
    if follower not in in_sync.isr and in_sync.followers[follower].is_near:
        partition.owner.came_near(partition)
    partition.advance_high_watermark()
    if start_offset != started:
        partition.waiting_fetches.wake_deletions(partition)
    return True


def caught_up(partition: Partition, follower: int, at_ms: int) -> None:
    """A follower that rests had all that there was at `at_ms`. That counts only if it has fetched in this epoch."""
    in_sync = partition.in_sync
    known = None if in_sync is None else in_sync.followers.get(follower)
    if in_sync is None or known is None or known.end_offset == UNKNOWN_OFFSET:
        return
    known.caught_up(at_ms)
    partition.check_lease()
    if follower not in in_sync.isr and known.is_near:
        partition.owner.came_near(partition)


def went_away(partition: Partition, follower: int) -> None:
    """The connection that a follower fetched on has ended: unless it is in the ISR, it is not waited for until it
    fetches again.
    """
    if partition.in_sync is not None and partition.in_sync.went_away(follower):
        partition.advance_high_watermark()


def low_watermark(partition: Partition, alive: Container[int]) -> int:
    """The least start offset of the replicas on this broker and on those in `alive`: no reader finds what is below. -1
    while one of them has not told its own.
    """
    in_sync, replicas = partition.in_sync, () if partition.state is None else partition.state.replicas
    known = {} if in_sync is None else in_sync.followers
    others = (replica for replica in replicas if replica != partition.broker_id and replica in alive)
    starts = (known[other].start_offset if other in known else -1 for other in others)
    return min([partition.log.start_offset, *starts])


# --- time passes ---


def look_at_followers(partition: Partition, now_ms: int, lag_max_ms: int) -> None:
    """Proposes to leave those out of the ISR that lag behind for longer than `lag_max_ms`."""
    in_sync = partition.in_sync
    if in_sync is None or not partition.is_leader:
        return
    in_sync.look(now_ms, lag_max_ms)
    want(partition, in_sync.shrinking(partition.log.end_offset, now_ms, lag_max_ms))
    # A follower that does not come nearer is not waited for any more.
    partition.advance_high_watermark()
    _ask_again(partition)


def look_at_near(
    partition: Partition, now_ms: int, lag_max_ms: int, is_alive: Callable[[int], bool] = lambda replica: True
) -> bool:
    """The high watermark waits no longer for a follower that has come near and does not come on, or whose broker is not
    alive. True if it still waits for a follower that is not in the ISR.
    """
    if partition.in_sync is None:
        return False
    is_near = partition.in_sync.look(now_ms, lag_max_ms, is_alive)
    partition.advance_high_watermark()
    return is_near


# --- changes of the ISR ---


def want(partition: Partition, proposal: Proposal | None) -> None:
    """Has a change of the ISR asked for, if there is one. Its members count from now on."""
    if proposal is not None:
        partition.note_others()
        partition.check_lease()
        partition.owner.propose(partition, proposal)


def _take_in(partition: Partition, in_sync: InSync, follower: int) -> None:
    """Proposes to take a follower in, if it has what is committed."""
    if follower in in_sync.isr or not in_sync.has_what_is_committed(follower, partition.log.high_watermark):
        return
    # From here on until the follower counts nobody else moves the high watermark.
    partition.end_lease()
    want(partition, in_sync.expansion(follower, partition.log.high_watermark))


def isr_changed(partition: Partition, leader_epoch: int, isr: tuple[int, ...], version: int) -> bool:
    """The ISR is another one now. False if that is no news."""
    in_sync, state = partition.in_sync, partition.state
    if in_sync is None or state is None or not in_sync.changed(leader_epoch, isr, version):
        return False
    partition.change(state=msgspec.structs.replace(state, isr=isr, zk_version=version))
    partition.note_others()
    partition.advance_high_watermark()
    partition.settle_produces()
    _ask_again(partition)
    return True


def isr_not_changed(partition: Partition, proposal: Proposal) -> None:
    """A proposed change was not made, and is not made any more."""
    if partition.in_sync is not None:
        partition.in_sync.withdrawn(proposal)
        partition.check_lease()
        partition.advance_high_watermark()


def isr_refused(partition: Partition, proposal: Proposal) -> InSync | None:
    """A proposed change was not made, and the controller does not make it now: see `InSync.refused`. Returns what is to
    `allow` changes after a while; None if that is no news.
    """
    in_sync = partition.in_sync
    if in_sync is None or not in_sync.refused(proposal):
        return None
    partition.check_lease()
    partition.advance_high_watermark()
    return in_sync


def _ask_again(partition: Partition) -> None:
    """Proposes a follower that came while another change was under way, or whose own failed: while nothing is written
    it rests, and is not heard of again. Its session says when it last had all that there is.
    """
    in_sync, high_watermark = partition.in_sync, partition.log.high_watermark
    if in_sync is None or not in_sync.may_join(high_watermark):
        return
    partition.waiting_fetches.wake_followers(partition)
    for follower, known in in_sync.followers.items():
        if known.is_near:
            _take_in(partition, in_sync, follower)
