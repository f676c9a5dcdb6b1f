"""What a leader knows of its followers in one leader epoch, and what follows from it: the high watermark, and which
replicas belong into the set of those in sync (ISR).

No I/O and no clock: values and times come in, values go out. The rules are those of Kafka 2.7 (`Partition.scala`):

* Nothing that a follower said in an older leader epoch counts. It may have truncated its log since, for a leader that
  this one never heard of.
* While a change of the ISR is under way, the high watermark waits for the members of both sets (the *maximal ISR*).
* A follower joins the ISR only with a log that reaches the high watermark and the start of this leader epoch
  (KAFKA-7128): records committed in an older epoch may lie above the new leader's high watermark.
* The high watermark also waits for a follower that is about to join. Otherwise a leader that is written to all the time
  is always ahead of it, and the follower never joins. A follower is about to join, it is *near*, for
  `replica.lag.time.max.ms` after it last had all that the leader had, which a follower far away says with its next
  Fetch only.

Two rules are not Kafka's:

* A follower that is not in the ISR is not near any more, until it fetches again, when it was taken out of the ISR, when
  the connection that it fetched on has ended, or when the controller names its broker no more; and while the controller
  refuses to take it in. With Kafka, writes stand still for `replica.lag.time.max.ms` when a broker that has just left
  fetches once more and stops.
* The high watermark does not move on this replica's word alone before the disk has what others had, or were to have
  (`left_alone`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from ottla._core import Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.replication.roles import PartitionState

#: A follower has not fetched in this leader epoch.
UNKNOWN_OFFSET = -1
#: In place of an offset: the disk has what the log held when this replica was left alone in sync.
DISK_HAS_IT = -1


def now_ms() -> int:
    """The clock of everything about followers: it never goes back."""
    return time.monotonic_ns() // 1_000_000


def left_alone(alone_from: int | None, end_offset: int, flushed_offset: int) -> int:
    """Where the log of a replica ended when it was left alone in sync, for whatever reason; `DISK_HAS_IT` once it is
    flushed up to there. The high watermark stays until then.

    Until that offset others had the records, or were to have them. What comes afterwards is as safe as that of a
    partition with one replica. `alone_from` is what this returned the last time, None if others were in sync since.
    """
    end = end_offset if alone_from is None else alone_from
    return DISK_HAS_IT if end <= flushed_offset else end


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """A change of the ISR that the controller (or the tree) is asked for. At most one is under way for a partition."""

    leader_epoch: int
    isr: tuple[int, ...]
    #: The version of the partition's state that the change is based on: it is refused if there is a newer one.
    version: int


class InSync:
    """The followers of a partition that this broker leads, and the ISR as the controller last said it."""

    __slots__ = (
        "epoch_start",
        "followers",
        "is_refused",
        "isr",
        "leader",
        "leader_epoch",
        "leased",
        "proposed",
        "version",
    )

    def __init__(
        self,
        leader: int,
        leader_epoch: int,
        replicas: Iterable[int],
        isr: tuple[int, ...],
        version: int,
        epoch_start: int,
        now_ms: int,
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.isr = isr
        self.version = version
        #: Where the log ended when this leader epoch began.
        self.epoch_start = epoch_start
        #: The change that is under way.
        self.proposed: Proposal | None = None
        #: A change was refused a moment ago: none is proposed.
        self.is_refused = False
        # A member of the ISR has the whole lag time to fetch from its new leader.
        self.followers = {
            replica: Follower(now_ms if replica in isr else None) for replica in replicas if replica != leader
        }
        #: Those that the hub may serve while they are in sync.
        self.leased = self.followers
        self._count()

    @classmethod
    def of(cls, leader: int, state: PartitionState, end_offset: int, now_ms: int) -> InSync | None:
        """The followers in the leader epoch of `state`, which begins where the leader's log ends. None where no other
        replica is assigned.
        """
        if state.replicas == (leader,):
            return None
        made = cls(leader, state.leader_epoch, state.replicas, state.isr, state.zk_version, end_offset, now_ms)
        if state.adding:
            # Bytes that go to a replica that is added are counted.
            made.leased = {}
        return made

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every replica that is in the ISR, or may be in it by now."""
        return frozenset(self.isr if self.proposed is None else (*self.isr, *self.proposed.isr))

    @property
    def is_alone(self) -> bool:
        """Whether the high watermark is the end of the leader's log, whatever its followers do."""
        return self.maximal_isr == {self.leader} and not any(one.is_near for one in self.followers.values())

    def fetched(self, follower: int, end_offset: int, start_offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Notes what a Fetch of a follower says of it. False if the partition is not assigned to that broker."""
        known = self.followers.get(follower)
        if known is None:
            return False
        known.fetched(end_offset, start_offset, leader_end_offset, now_ms)
        return True

    def high_watermark(self, end_offset: int) -> int:
        """The end of what every replica has that counts. The leader's log ends at `end_offset`."""
        return min(end_offset, Follower.end_of_all(tuple(self.followers.values()))[0])

    def look(self, now_ms: int, lag_max_ms: int, is_alive: Callable[[int], bool] = lambda replica: True) -> bool:
        """Notes which followers are near; whether one is that is not in the ISR. Such a one is not near if its broker
        is not alive.
        """
        for replica, one in self.followers.items():
            if replica not in self.isr and not is_alive(replica):
                one.went_away()
            one.look(now_ms, lag_max_ms)
        return any(one.is_near for replica, one in self.followers.items() if replica not in self.isr)

    def went_away(self, follower: int) -> bool:
        """The connection that a follower fetched on has ended. Whether the high watermark need not wait for it any
        more.
        """
        known = self.followers.get(follower)
        if known is None or follower in self.isr or not known.is_near:
            return False
        known.went_away()
        return True

    # --- changes of the ISR ---

    def expansion(self, follower: int, high_watermark: int) -> Proposal | None:
        """Proposes to take a follower in, if it has what is committed. It counts for the high watermark at once."""
        if self.proposed is not None or self.is_refused or follower in self.isr:
            return None
        if not self.has_what_is_committed(follower, high_watermark):
            return None
        return self._propose((*self.isr, follower))

    def has_what_is_committed(self, follower: int, high_watermark: int) -> bool:
        """Whether a follower has all below the high watermark, and from before this leader epoch."""
        known = self.followers.get(follower)
        return known is not None and known.end_offset >= max(high_watermark, self.epoch_start)

    def may_join(self, high_watermark: int) -> bool:
        """Whether a follower that is not in the ISR has what is committed, and no change is under way."""
        least = max(high_watermark, self.epoch_start)
        return self.proposed is None and any(
            replica not in self.isr and one.end_offset >= least for replica, one in self.followers.items()
        )

    def shrinking(self, end_offset: int, now_ms: int, lag_max_ms: int) -> Proposal | None:
        """Proposes to leave out the followers that are behind the leader's end and were so for longer than
        `lag_max_ms`. They count for the high watermark until the change is made.
        """
        if self.proposed is not None or self.is_refused:
            return None
        kept = tuple(
            replica
            for replica in self.isr
            if (one := self.followers.get(replica)) is None
            or one.end_offset == end_offset
            or (one.caught_up_ms is not None and now_ms - one.caught_up_ms <= lag_max_ms)
        )
        return None if kept == self.isr else self._propose(kept)

    def _propose(self, isr: tuple[int, ...]) -> Proposal:
        self.proposed = Proposal(self.leader_epoch, isr, self.version)
        self._count()
        return self.proposed

    def _count(self) -> None:
        """Says to each follower whether it counts. The high watermark waits for those also who take note of Fetches
        without asking here.
        """
        maximal = self.maximal_isr
        for replica, one in self.followers.items():
            one.is_member = replica in maximal

    def changed(self, leader_epoch: int, isr: tuple[int, ...], version: int) -> bool:
        """The state of the partition is another one now, of this leader epoch. False if that is no news."""
        if leader_epoch != self.leader_epoch or version <= self.version:
            return False
        for replica in self.maximal_isr.difference(isr):
            if (known := self.followers.get(replica)) is not None:
                known.went_away()
        self.isr = isr
        self.version = version
        self.proposed = None
        self._count()
        return True

    def withdrawn(self, proposal: Proposal) -> None:
        """A change was surely not made, and nobody will make it any more."""
        if self.proposed == proposal:
            self.proposed = None
            self._count()

    def refused(self, proposal: Proposal) -> bool:
        """The same of a change that the controller does not make now. A follower that it does not take in, because it
        is about to stop for instance, counts no longer. No change is proposed until `allow`. False if the proposal is
        another one by now.
        """
        if self.proposed != proposal:
            return False
        self.proposed, self.is_refused = None, True
        self._count()
        for replica in proposal.isr:
            if replica not in self.isr and (known := self.followers.get(replica)) is not None:
                known.went_away()
                known.is_refused = True
        return True

    def allow(self) -> None:
        """The refusal is a while ago: changes may be proposed anew, and who was refused counts with its next Fetch."""
        self.is_refused = False
        for known in self.followers.values():
            known.is_refused = False
