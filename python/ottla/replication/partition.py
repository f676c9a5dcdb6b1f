"""A partition as one broker sees it: role, epochs, replicas, high watermark, and the requests that wait on them.

No sockets, no loop and no clock: values in, values out. The log it holds is the native one, whose calls never wait for
a disk.

The rules come from Apache Kafka (KIP-101, KIP-279, KIP-320). Those that are easy to get wrong:

* A state is applied only if its leader epoch is greater than the known one.
* A new leader enters (epoch, log end offset) into its epoch cache even if nothing is ever appended.
* Whoever waits for a high watermark or a flush waits under the leader epoch of its append: a role change fails it
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from ottla.errors import FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, StorageError, UnknownLeaderEpoch
from ottla.kafka import INTERNAL_TOPICS, NO_EPOCH
from ottla.net.guard import failed
from ottla.replication.lease import Terms

if TYPE_CHECKING:
    from ottla._core import Log
    from ottla.replication.lease import Lease


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """What a controller says about a partition (LeaderAndIsr)."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    zk_version: int


class Waiter(Protocol):
    """A request that waits for a partition to move on."""

    def advanced(self, partition: Partition) -> None:
        """The high watermark moved, or the role changed."""

    def expire(self) -> None:
        """Waiting is over: answer with what there is."""


@dataclass(slots=True)
class _Durable:
    """An append whose answer needs the high watermark, and where there is one replica the disk, to cover it."""

    last_offset: int
    leader_epoch: int
    done: Callable[[int], None]


#: What `Partition.terms` depends on: only `Partition.change` assigns it.
GUARDED = frozenset(
    {"flush_on_acks_all", "is_leader", "is_offline", "leader_epoch", "log", "min_insync_replicas", "state", "topic"}
)


class _NoLog:
    """In place of a log that is out of reach: what is asked of every log, about nothing."""

    start_offset = end_offset = high_watermark = flushed_offset = 0
    leader_epoch = NO_EPOCH
    first_unstable_offset = None


class Partition:
    """One partition's replica on this broker. All methods are called from the loop's thread.

    What a lease depends on (`GUARDED`) changes through `change` alone, which ends a lease whose terms are no longer
    true. Any other assignment to it raises AttributeError.
    """

    __slots__ = (
        "_broker_id",
        "_durable",
        "compression_type",
        "deletions",
        "fetches",
        "flush_again",
        "flush_on_acks_all",
        "flushes",
        "index",
        "is_internal",
        "is_leader",
        "is_offline",
        "leader_epoch",
        "leader_epoch_start",
        "lease",
        "log",
        "log_start_told",
        "may_convert_down",
        "may_delete",
        "min_insync_replicas",
        "record_format",
        "replica_starts",
        "state",
        "topic",
    )

    topic: str
    log: Log
    is_leader: bool
    #: The log's directory failed.
    is_offline: bool
    leader_epoch: int
    state: PartitionState | None
    min_insync_replicas: int
    #: acks=all on a partition of one replica answers after fdatasync: there is no other copy to survive a power cut.
    flush_on_acks_all: bool

    def __init__(self, topic: str, index: int, broker_id: int, log: Log) -> None:
        #: While the hub may append and read without asking.
        self.lease: Lease | None = None
        self.change(
            topic=topic,
            log=log,
            is_leader=False,
            is_offline=False,
            leader_epoch=NO_EPOCH,
            state=None,
            min_insync_replicas=1,
            flush_on_acks_all=True,
        )
        self.index = index
        #: Only this broker's coordinators write to it.
        self.is_internal = topic in INTERNAL_TOPICS
        self.leader_epoch_start = 0
        self.compression_type = "producer"
        #: `cleanup.policy` contains `delete`: records may be deleted by request.
        self.may_delete = True
        #: Consumers of old formats may have what is stored converted.
        self.may_convert_down = True
        #: The format of records that is stored: 0, 1 or 2.
        self.record_format = 2
        #: Flushes that run or wait, and whether one more is wanted after them.
        self.flushes = 0
        self.flush_again = False
        #: Parked fetches, in the order of their arrival; `park` adds them. The collector does not watch an empty dict.
        self.fetches: dict[Waiter, None] = {}
        #: What those who wait in `fetches` have last heard of.
        self.log_start_told = log.start_offset
        #: Deletions of records that wait for other replicas.
        self.deletions: dict[Waiter, None] = {}
        #: Where the logs of other replicas start, as far as they have said so.
        self.replica_starts: dict[int, int] = {}
        self._broker_id = broker_id
        #: None until somebody waits: most partitions of a broker are written to seldom, and a deque is 0.6 KB.
        self._durable: deque[_Durable] | None = None

    @classmethod
    def without_log(cls, topic: str, index: int, broker_id: int) -> Partition:
        """One whose log is in a directory that is out of use: nothing but its errors may be asked."""
        partition = cls(topic, index, broker_id, cast("Log", _NoLog()))
        partition.change(is_offline=True)
        return partition

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    # --- terms ---

    def __setattr__(self, name: str, value: object) -> None:
        if name in GUARDED:
            raise AttributeError(
                f"`{name}` of a partition changes through Partition.change, which looks after its lease"
            )
        object.__setattr__(self, name, value)

    def change(self, **changes: object) -> None:
        """Changes attributes of `GUARDED`, all at once, and ends the lease if the terms are others now."""
        for name, value in changes.items():
            if name not in GUARDED:
                raise AttributeError(f"`{name}` of a partition is simply assigned: no lease depends on it")
            object.__setattr__(self, name, value)
        if self.lease is not None and self.terms() != self.lease.terms:
            self.end_lease()

    def terms(self) -> Terms | None:
        """What a lease would know of the partition now. None if it may have none."""
        if not self.is_leader or self.is_offline or self.is_internal:
            return None
        alone = self.is_alone
        acknowledges_all = alone and self.has_enough_replicas and not self.needs_flush
        return Terms(self.log, self.leader_epoch, alone, acknowledges_all)

    def leased(self, lease: Lease) -> None:
        """The hub may serve the partition until the terms change."""
        self.end_lease()
        self.lease = lease
        lease.watch(bool(self.fetches))

    def end_lease(self) -> None:
        """From now on every Produce and Fetch is decided upon one by one."""
        if self.lease is not None:
            lease, self.lease = self.lease, None
            lease.end()

    # --- roles ---

    def apply(self, state: PartitionState) -> bool:
        """Takes a newer state; False if it is not newer. The log's epoch is set before anyone can append under the new
        one.
        """
        if state.leader_epoch <= self.leader_epoch:
            return False
        self.change(state=state, leader_epoch=state.leader_epoch, is_leader=state.leader == self._broker_id)
        self._fail_waiting()
        if self.is_leader:
            self.leader_epoch_start = self.log.end_offset
            if self.log.leader_epoch != state.leader_epoch:
                self.log.begin_epoch(state.leader_epoch)
            self.advance_high_watermark()
        return True

    def resign(self) -> None:
        """The replica is going away (StopReplica, a failed directory, shutdown): whoever waits is told that this is no
        leader.
        """
        self.change(is_leader=False)
        self._fail_waiting()

    def park(self, fetch: Waiter) -> None:
        """A Fetch waits for the partition from now on, until it is taken out of `fetches`."""
        self.fetches[fetch] = None
        if self.lease is not None:
            # The hub must not move the high watermark unseen.
            self.lease.watch(True)

    def release_fetches(self) -> None:
        """Answers every parked fetch (and deletion) with what there is: a stopping broker does not let clients wait for
        their deadlines.
        """
        for waiter in (*self.fetches, *self.deletions):
            try:
                waiter.expire()
            except BaseException as error:
                failed(f"the release of a request that waited for {self}", error)

    def moved(self, log: Log) -> bool:
        """The partition's log is another one now, with the same records. True if the caller must start a flush."""
        self.change(log=log)
        self.advance_high_watermark()
        self._settle_durable()
        # They count new bytes by their place in the old log.
        self.release_fetches()
        return bool(self._durable) and self.needs_flush

    def go_offline(self) -> None:
        """The log can no longer be used."""
        self.change(is_offline=True)
        self.resign()

    # --- the log's start ---

    def low_watermark(self, alive: Container[int]) -> int:
        """The least start offset of the replicas on brokers in `alive`: what no reader finds any more."""
        replicas = () if self.state is None else self.state.replicas
        others = (replica for replica in replicas if replica != self._broker_id and replica in alive)
        return min([self.log.start_offset, *(self.replica_starts.get(other, -1) for other in others)])

    def replica_started(self, broker_id: int, start_offset: int) -> None:
        """Another replica's log starts at `start_offset` now."""
        self.replica_starts[broker_id] = start_offset
        self._wake_deletions()

    def _wake_deletions(self) -> None:
        for deletion in tuple(self.deletions):
            try:
                deletion.advanced(self)
            except BaseException as error:
                failed(f"a DeleteRecords that waited for {self}", error)

    # --- who waits ---

    def _fail_waiting(self) -> None:
        waiting, self._durable = self._durable or (), None
        for durable in waiting:
            self._done(durable, StorageError.code if self.is_offline else NotLeaderOrFollower.code)
        self._wake_fetches()
        self._wake_deletions()

    def leader_error(self, current_leader_epoch: int) -> int:
        """0 if a client that believes in `current_leader_epoch` (-1: it does not say) may be served here, else the
        error code.
        """
        if self.is_offline:
            return StorageError.code
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return FencedLeaderEpoch.code if current_leader_epoch < self.leader_epoch else UnknownLeaderEpoch.code
        return 0 if self.is_leader else NotLeaderOrFollower.code

    def diverging_epoch(self, last_fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        """(epoch, end offset) where the log of a reader ends to be this one: it has read up to `offset`, and its last
        record has the epoch `last_fetched_epoch`. None if all it has is here too.

        Raises OffsetOutOfRange for an epoch that this log knows nothing of.
        """
        epoch, end_offset = self.log.epoch_end_offset(last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(f"{self}: epoch {last_fetched_epoch} of the last fetched record is unknown here")
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None

    @property
    def is_alone(self) -> bool:
        """Whether this is the only replica in sync: the high watermark is the end of its log."""
        return self.state is not None and len(self.state.isr) == 1

    @property
    def has_enough_replicas(self) -> bool:
        return self.state is not None and len(self.state.isr) >= self.min_insync_replicas

    @property
    def needs_flush(self) -> bool:
        """Whether an acks=all answer waits for the disk (see `flush_on_acks_all`)."""
        return self.flush_on_acks_all and self.state is not None and len(self.state.replicas) == 1

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop: below the high watermark and below every open transaction."""
        return self.log.last_stable_offset

    # --- moving on ---

    def advance_high_watermark(self) -> None:
        """With one in-sync replica the high watermark is the log end offset. Wakes whoever waits for it."""
        if self.is_alone and self.log.advance_high_watermark():
            self._settle_durable()
            self._wake_fetches()
            if self.lease is not None:
                self.lease.advanced()
                if self.lease.is_watched and not self.fetches:
                    self.lease.watch(False)

    def check_log_start(self) -> None:
        """Wakes fetch sessions that rest if old records were removed since: their clients are told."""
        if self.fetches and self.log.start_offset != self.log_start_told:
            self.log_start_told = self.log.start_offset
            self._wake_fetches()

    def _wake_fetches(self) -> None:
        if self.fetches:
            for fetch in tuple(self.fetches):
                try:
                    fetch.advanced(self)
                except BaseException as error:
                    failed(f"a Fetch that waited for {self}", error)

    def wait_durable(self, last_offset: int, done: Callable[[int], None]) -> bool:
        """Calls `done(error code)` once `last_offset` is below the high watermark and, where that is asked, on disk.

        True if the caller must start a flush. A recognised duplicate waits for the original's last offset in the same
        way.
        """
        if self._is_durable(last_offset):
            done(0)
            return False
        if self._durable is None:
            self._durable = deque()
        self._durable.append(_Durable(last_offset, self.leader_epoch, done))
        return self.needs_flush and last_offset >= self.log.flushed_offset

    def flushed(self) -> None:
        """The log's flushed offset moved."""
        self._settle_durable()

    def flush_failed(self) -> None:
        """A flush of the log failed, and its directory is still in use: nobody knows when the next one succeeds."""
        waiting, self._durable = self._durable or (), None
        for durable in waiting:
            self._done(durable, 0 if self._is_durable(durable.last_offset) else StorageError.code)

    def _is_durable(self, last_offset: int) -> bool:
        return last_offset < self.log.high_watermark and (not self.needs_flush or last_offset < self.log.flushed_offset)

    def _settle_durable(self) -> None:
        # Appends are in offset order; a duplicate may wait for an older offset, so it can stand behind a younger one,
        # never for longer.
        waiting = self._durable
        while waiting and self._is_durable(waiting[0].last_offset):
            durable = waiting.popleft()
            same_term = durable.leader_epoch == self.leader_epoch and self.is_leader
            self._done(durable, 0 if same_term else NotLeaderOrFollower.code)

    def _done(self, durable: _Durable, error_code: int) -> None:
        try:
            durable.done(error_code)
        except BaseException as error:
            failed(f"an acks=all that waited for {self}", error)
