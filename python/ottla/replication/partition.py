"""A partition as one broker sees it: role, epochs, replicas, high watermark, and the requests that wait on them.

No sockets, no loop and no clock: values in, values out. The log it holds is the native one, whose calls never wait for
a disk.

The rules come from Apache Kafka (KIP-101, KIP-279, KIP-320). Those that are easy to get wrong:

* A state is applied only if its leader epoch is greater than the known one (`roles.py` says what it makes of a
replica).
* A new leader enters (epoch, log end offset) into its epoch cache even if nothing is ever appended.
* A request that waits for a high watermark or a flush waits under the term of its append. A term is the time for which
  one broker leads without a break, and its name is the first leader epoch of it. Its end fails the request.
* What the followers have is known for one leader epoch (`in_sync.py`), and forgotten at the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ottla.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    StorageError,
    UnknownLeaderEpoch,
)
from ottla.kafka import INTERNAL_TOPICS, NO_EPOCH
from ottla.replication.in_sync import DISK_HAS_IT, InSync, left_alone
from ottla.replication.lease import Leased, Terms
from ottla.replication.no_log import NoLog
from ottla.replication.owner import UNOWNED
from ottla.replication.roles import PartitionState, Role, role
from ottla.replication.waiting_fetches import NOBODY, Waiter, WaitingFetches
from ottla.replication.waiting_produces import WaitingProduce, WaitingProduces

if TYPE_CHECKING:
    from ottla._core import Log
    from ottla.replication.lease import Lease
    from ottla.replication.owner import Owner


class Partition(Leased):
    """One partition's replica on this broker. All methods are called from the loop's thread.

    What a lease depends on (`GUARDED`) changes through `change` alone: see `Leased`.

    owner: It does what the partition cannot do alone.
    """

    __slots__ = (
        "alone_from",
        "broker_id",
        "compression_type",
        "flush_again",
        "flush_on_acks_all",
        "flushes",
        "in_sync",
        "index",
        "is_following",
        "is_heard",
        "is_internal",
        "is_leader",
        "is_offline",
        "leader_epoch",
        "leader_epoch_start",
        "log",
        "log_start_told",
        "may_convert_down",
        "may_delete",
        "min_insync_replicas",
        "owner",
        "record_format",
        "state",
        "term",
        "topic",
        "waiting_fetches",
        "waiting_produces",
    )

    GUARDED = frozenset(
        {
            "alone_from",
            "compression_type",
            "flush_on_acks_all",
            "in_sync",
            "is_leader",
            "is_offline",
            "leader_epoch",
            "log",
            "min_insync_replicas",
            "state",
            "topic",
        }
    )
    topic: str
    log: Log
    is_leader: bool
    #: The log's directory failed.
    is_offline: bool
    leader_epoch: int
    state: PartitionState | None
    min_insync_replicas: int
    #: acks=all with one replica in sync answers after fdatasync: there is no other copy to survive a power cut.
    flush_on_acks_all: bool
    #: The followers of a partition that this broker leads; None where no other replica is assigned.
    in_sync: InSync | None
    #: Where the log ended when this replica was left alone in sync, until the disk has it up to there: `DISK_HAS_IT`.
    #: None: others may be in sync.
    alone_from: int | None
    compression_type: str

    def __init__(
        self,
        topic: str,
        index: int,
        broker_id: int,
        log: Log,
        owner: Owner[Partition] = UNOWNED,
    ) -> None:
        super().__init__()
        self.change(
            topic=topic,
            log=log,
            is_leader=False,
            is_offline=False,
            leader_epoch=NO_EPOCH,
            state=None,
            min_insync_replicas=1,
            flush_on_acks_all=True,
            in_sync=None,
            alone_from=None,
            compression_type="producer",
        )
        self.index = index
        #: Another broker leads, and this replica may be read from.
        self.is_following = False
        #: The next move of the high watermark is going to be heard of.
        self.is_heard = False
        #: Only this broker's coordinators write to it.
        self.is_internal = topic in INTERNAL_TOPICS
        self.leader_epoch_start = 0
        #: The first leader epoch for which this broker has led since.
        self.term = NO_EPOCH
        #: `cleanup.policy` contains `delete`: records may be deleted by request.
        self.may_delete = True
        #: Consumers of old formats may have what is stored converted.
        self.may_convert_down = True
        #: The format of records that is stored: 0, 1 or 2.
        self.record_format = 2
        #: Flushes that run or wait, and whether one more is wanted after them.
        self.flushes = 0
        self.flush_again = False
        #: The log's start of which the Fetches that wait have last heard.
        self.log_start_told = log.start_offset
        self.broker_id = broker_id
        self.owner = owner
        #: Fetches and deletions of records that wait: `park` and `park_deletion` add them.
        self.waiting_fetches: WaitingFetches[Partition] = NOBODY
        #: None until an append waits: most partitions of a broker are written to seldom, and a queue is 0.6 KB.
        self.waiting_produces: WaitingProduces | None = None

    @classmethod
    def without_log(cls, topic: str, index: int, broker_id: int) -> Partition:
        """One whose log is in a directory that is out of use: nothing but its errors may be asked."""
        partition = cls(topic, index, broker_id, cast("Log", NoLog()))
        partition.change(is_offline=True)
        return partition

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    # --- leases ---

    def terms(self) -> Terms | None:
        """What a lease would know of the partition now. None if it may have none."""
        if not self.is_leader or self.is_offline:
            return None
        accepts_all = self.has_enough_replicas and not self.needs_flush
        is_zstd = self.compression_type == "zstd"
        followers = {} if self.in_sync is None else self.in_sync.leased
        return Terms(self.log, self.leader_epoch, self.is_alone, accepts_all, is_zstd, self.is_internal, followers)

    def leased(self, lease: Lease) -> None:
        """The hub may serve the partition until the terms change."""
        super().leased(lease)
        lease.watch(self._is_awaited)

    @property
    def _is_awaited(self) -> bool:
        """Requests wait here for the high watermark, or for the log's end."""
        return self.waiting_fetches.has_fetches or bool(self.waiting_produces)

    # --- roles ---

    def adds(self, broker: int) -> bool:
        """Whether a reassignment adds the replica of a broker. Its end comes with another leader epoch."""
        state = self.state
        return state is not None and broker in state.adding

    def role(self, state: PartitionState) -> Role:
        """What a state that the controller sends makes of this replica."""
        return role(state, self.broker_id, self.leader_epoch, self.is_leader)

    def apply(self, state: PartitionState, now_ms: int = 0) -> Role:
        """Takes a newer state; `Role.STALE` if it is not newer. The log's epoch is set before anyone can append under
        the new one.
        """
        applied = self.role(state)
        if applied is Role.STALE:
            return applied
        is_leader = applied is not Role.FOLLOWS
        if not is_leader:
            # Appends that wait for an I/O thread were meant for the older epoch.
            self.log.refuse_older(state.leader_epoch)
        # A follower may have truncated for a leader that this one never heard of.
        in_sync = InSync.of(self.broker_id, state, self.log.end_offset, now_ms) if is_leader else None
        alone_from = self.alone_from
        if applied is not Role.LEADS_ON:
            # Where no other replica is assigned, none has been left.
            alone_from = DISK_HAS_IT if in_sync is None else None
        self.change(
            state=state,
            leader_epoch=state.leader_epoch,
            is_leader=is_leader,
            in_sync=in_sync,
            alone_from=alone_from,
        )
        self.is_following = not is_leader
        if applied is not Role.LEADS_ON:
            self.term = state.leader_epoch
            self._hear()
            self._fail_waiting()
        if is_leader:
            self.note_others()
            self.leader_epoch_start = self.log.end_offset
            if applied is Role.LEADS_ON:
                # What producers send meanwhile is appended under the new epoch. Its start is written down off the loop.
                self.log.lead_on(state.leader_epoch)
            elif self.log.leader_epoch != state.leader_epoch:
                self.log.begin_epoch(state.leader_epoch)
            self.advance_high_watermark()
            if applied is Role.LEADS_ON:
                # Those that name the older epoch are told so.
                self.waiting_fetches.wake_consumers(self)
                self.waiting_fetches.wake_followers(self)
            self.waiting_fetches.wake_deletions(self)
        return applied

    def resign(self) -> None:
        """The replica is going away (StopReplica, a failed directory, shutdown): whoever waits is told that this is no
        leader.
        """
        self.is_following = False
        self.change(is_leader=False, in_sync=None)
        self._fail_waiting()

    def go_offline(self) -> None:
        """The log can no longer be used."""
        self.change(is_offline=True)
        self.resign()

    def moved(self, log: Log) -> bool:
        """The partition's log is another one now, with the same records. True if the caller must start a flush."""
        self.change(log=log)
        self.advance_high_watermark()
        self.settle_produces()
        # They count new bytes by their place in the old log.
        self.release_fetches()
        self.is_heard = False
        self._hear()
        return bool(self.waiting_produces) and self.needs_flush

    # --- questions ---

    def leader_error(self, current_leader_epoch: int, or_follower: bool = False) -> int:
        """0 if a client that believes in `current_leader_epoch` (-1: it does not say) may be served here, else the
        error code. With `or_follower` it may be served by a follower as well.
        """
        if self.is_offline:
            return StorageError.code
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return FencedLeaderEpoch.code if current_leader_epoch < self.leader_epoch else UnknownLeaderEpoch.code
        return 0 if self.is_leader or (or_follower and self.is_following) else NotLeaderOrFollower.code

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync, as the controller last said."""
        return () if self.state is None else self.state.isr

    @property
    def maximal_isr_size(self) -> int:
        """The number of replicas in sync, with those that a change under way takes in or leaves out."""
        return len(self.isr) if self.in_sync is None else len(self.in_sync.maximal_isr)

    @property
    def is_alone(self) -> bool:
        """Whether the high watermark is the end of this replica's log: no other is in sync, or about to be, and the
        disk has what came before that.
        """
        if self.alone_from != DISK_HAS_IT:
            return False
        return len(self.isr) == 1 if self.in_sync is None else self.in_sync.is_alone

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may append (`min.insync.replicas`)."""
        return self.state is not None and len(self.isr) >= self.min_insync_replicas

    @property
    def needs_flush(self) -> bool:
        """Whether an acks=all answer waits for the disk (see `flush_on_acks_all`)."""
        return self.flush_on_acks_all and self.state is not None and self.maximal_isr_size == 1

    # --- the high watermark ---

    def appended(self) -> None:
        """The log has grown, or its turn ended: moves the high watermark as far as it may, and lets followers fetch."""
        self.advance_high_watermark()
        if self.waiting_fetches.followers:
            self.waiting_fetches.wake_followers(self)
        if self.lease is not None and self.lease.terms.followers:
            self.lease.grown()

    def advance_high_watermark(self) -> None:
        """Moves the high watermark to what every replica has that counts, and wakes whoever waits for it."""
        if not self.is_leader or not self._raise_high_watermark():
            return
        if self.waiting_produces:
            self.settle_produces()
        if self.waiting_fetches.consumers:
            self.waiting_fetches.wake_consumers(self)
        if self.lease is not None:
            self.lease.advanced()
            if self.lease.is_watched and not self._is_awaited:
                self.lease.watch(False)

    def _raise_high_watermark(self) -> bool:
        if self.alone_from != DISK_HAS_IT and self._waits_for_disk():
            return False
        log, in_sync = self.log, self.in_sync
        if in_sync is None:
            return self.is_alone and log.advance_high_watermark()
        return log.raise_high_watermark(in_sync.high_watermark(log.end_offset))

    def _waits_for_disk(self) -> bool:
        """Whether the high watermark stays until the log is flushed (`left_alone`)."""
        if self.maximal_isr_size > 1:
            return False
        known, log = self.alone_from, self.log
        alone_from = left_alone(known, log.end_offset, log.flushed_offset) if self.flush_on_acks_all else DISK_HAS_IT
        if alone_from != known:
            self.change(alone_from=alone_from)
        if known is None and alone_from != DISK_HAS_IT:
            self.owner.flush(self)
        return alone_from != DISK_HAS_IT

    def note_others(self) -> None:
        """Other replicas may have come to be in sync: if they leave, this one is left alone anew."""
        if self.maximal_isr_size > 1:
            self.change(alone_from=None)

    def flushed(self) -> None:
        """The log's flushed offset moved."""
        if self.alone_from != DISK_HAS_IT:
            self.advance_high_watermark()
        self.settle_produces()
        if self.lease is not None:
            self.lease.advanced()

    def flush_failed(self) -> None:
        """A flush of the log failed, and its directory is still in use: nobody knows when the next one succeeds."""
        if self.alone_from != DISK_HAS_IT:
            # The next look has the log flushed again.
            self.change(alone_from=None)
        # With those that wait in the hub.
        self.end_lease()
        produces, self.waiting_produces = self.waiting_produces, None
        if produces:
            produces.end(self, StorageError.code, self._safe_end(), self._safe_code())

    # --- who waits ---

    def wait_durable(self, last_offset: int, done: Callable[[int], None]) -> bool:
        """Calls `done(error code)` once `last_offset` is below the high watermark and, where that is asked, on disk. It
        is NotEnoughReplicasAfterAppend if too few replicas are in sync by then.

        True if the caller must start a flush. A recognised duplicate waits for the original's last offset in the same
        way. Where this broker leads no more the error is NotLeaderOrFollower, at once.
        """
        if not self.is_leader:
            done(NotLeaderOrFollower.code)
            return False
        # Looked at once: other threads flush, too. What is not on disk now waits for the flush that the caller starts.
        is_on_disk = last_offset < self._disk_end()
        # The hub moves the high watermark unseen until it hears that somebody waits.
        waiting = None if is_on_disk and last_offset < self.log.high_watermark else self._all_waiting()
        if waiting is None or (is_on_disk and last_offset < self.log.high_watermark):
            done(self._safe_code())
            return False
        waiting.to_be_safe.append(WaitingProduce(last_offset, self.term, done))
        return not is_on_disk

    def wait_flushed(self, last_offset: int, done: Callable[[int], None]) -> bool:
        """Calls `done(error code)` once no flush that is due covers `last_offset` (`flush.messages`), whatever other
        replicas have. True if the caller must start a flush.
        """
        if last_offset < self.log.settled_offset:
            done(0)
            return False
        self._all_waiting().to_be_flushed.append(WaitingProduce(last_offset, self.term, done))
        return True

    def _all_waiting(self) -> WaitingProduces:
        if self.waiting_produces is None:
            self.waiting_produces = WaitingProduces()
        if self.lease is not None:
            self.lease.watch(True)
        return self.waiting_produces

    def settle_produces(self) -> None:
        """Answers the appends that wait and are safe by now."""
        if self.waiting_produces:
            term = self.term if self.is_leader else None
            settled = self.log.settled_offset
            self.waiting_produces.settle(self, self._safe_end(), term, self._safe_code(), settled)

    def _safe_end(self) -> int:
        """The offset before which records are as safe as they can be here: below the high watermark and, where that is
        asked, on disk.
        """
        return min(self.log.high_watermark, self._disk_end())

    def _disk_end(self) -> int:
        """The offset before which no acks=all answer waits for the disk."""
        return self.log.flushed_offset if self.needs_flush else self.log.settled_offset

    def _safe_code(self) -> int:
        """The error code for an append that is as safe as it can be here."""
        is_enough = self.state is not None and self.maximal_isr_size >= self.min_insync_replicas
        return 0 if is_enough else NotEnoughReplicasAfterAppend.code

    def park(self, fetch: Waiter[Partition], *, is_follower: bool = False) -> None:
        """A Fetch waits for the partition from now on, until `waiting_fetches.unpark`: for the high watermark, or a
        follower's for the log's end.
        """
        if self.waiting_fetches is NOBODY:
            self.waiting_fetches = WaitingFetches()
        self.waiting_fetches.park(fetch, is_follower)
        if self.lease is not None:
            # The hub must not move the log's end or the high watermark unseen.
            self.lease.watch(True)
        if self.is_following:
            self._hear()

    def park_deletion(self, deletion: Waiter[Partition]) -> None:
        """A DeleteRecords waits from now on, until `waiting_fetches.unpark`, for the log starts of other replicas."""
        if self.waiting_fetches is NOBODY:
            self.waiting_fetches = WaitingFetches()
        self.waiting_fetches.park_deletion(deletion)

    def release_fetches(self) -> None:
        """Answers every parked Fetch (and deletion) with what there is: a stopping broker does not let clients wait for
        their deadlines.
        """
        self.waiting_fetches.release(self)

    def check_log_start(self) -> None:
        """Wakes fetch sessions that rest if old records were removed since: their clients are told."""
        if self.log.start_offset == self.log_start_told:
            return
        if self.waiting_fetches.has_fetches:
            self.log_start_told = self.log.start_offset
            self.waiting_fetches.wake_consumers(self)
            self.waiting_fetches.wake_followers(self)
        if self.lease is not None and self.log.first_unstable_offset is not None:
            # It may have overtaken the start of an open transaction, where readers of committed records wait.
            self.lease.advanced()

    def _hear(self) -> None:
        """Has the next move of the high watermark heard of, where a fetcher moves it and somebody waits for it."""
        if self.is_following and self.waiting_fetches.consumers and not self.is_heard:
            self.is_heard = True
            self.owner.listen_to(self)

    def heard(self) -> None:
        """The high watermark moved, in whatever thread."""
        self.is_heard = False
        # Before they look: what moves afterwards is heard of again.
        self._hear()
        if self.is_following:
            self.waiting_fetches.wake_consumers(self)

    def _fail_waiting(self) -> None:
        produces, self.waiting_produces = self.waiting_produces, None
        if produces:
            produces.end(self, StorageError.code if self.is_offline else NotLeaderOrFollower.code)
        self.waiting_fetches.wake_consumers(self)
        self.waiting_fetches.wake_followers(self)
        self.waiting_fetches.wake_deletions(self)
