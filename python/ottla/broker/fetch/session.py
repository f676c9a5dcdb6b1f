"""Fetch sessions (KIP-227): what a client asks for again and again is remembered, so that a request names only what
changed, and so does its answer.

Kafka reads every partition of a session at every request. Here a session's partitions are in one of two states, so that
a request costs what it asks and what changed, not what it remembers:

* *live*: there may be something to tell. Live partitions are read at every request, in Kafka's order: that in which
  they were named first, but who is named in an answer goes to the end, so that the limit of an answer's bytes starves
  nobody.
* *resting*: the client knows everything. The session is registered with the partition (as a parked request is), which
  becomes live when it moves on.

A consumer that keeps up changes between the two with every answer. So that this costs it little, a session stays
registered with a partition that becomes live, until that moves on unasked for.

Which partitions an answer names is Kafka's rule (FetchSession.scala): those with records, an error, a diverging epoch,
a replica to read from, or with a high watermark or log start offset that the client has not been told.

A session may be *lent* (`lending.py`): then the hub serves it, and has all that changes. `FetchSessions.get` takes it
back.

No I/O and no clock: values and times come in, values go out.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from ottla._core import PartitionToRead
from ottla.kafka import PartitionKey
from ottla.replication import leading

if TYPE_CHECKING:
    from ottla._core import FetchRow, Reader
    from ottla.replication.partition import Partition

NO_SESSION: Final = 0
#: Epochs of a request for everything: one that begins a session, and one that ends it or never had one.
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
#: A session that was not used for so long may give way to any new one; one that has lived for so long to a larger one.
EVICTION_MS: Final = 120_000
LOOK_UP_MS: Final = 1_000
#: How often the use of a busy session is noted at least.
USED_MS: Final = 1_000
#: Of all sessions together, about 450 bytes each: what a client names is remembered whether it exists or not.
PARTITIONS_MAX: Final = 500_000


def next_epoch(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1


class CachedPartition:
    """One partition of a session: what the client asks, and what it was told. It is what waits (a `Waiter`) where the
    session is registered.
    """

    __slots__ = ("asked", "high_watermark", "key", "log_start", "partition", "place", "session")

    def __init__(self, asked: PartitionToRead, high_watermark: int = -1, log_start: int = -1) -> None:
        self.asked = asked
        #: Who has a lower one is read before.
        self.place = 0
        self.key: PartitionKey = asked.key
        self.high_watermark = high_watermark
        self.log_start = log_start
        #: Where the session is registered, if it is.
        self.partition: Partition | None = None
        self.session: FetchSession | None = None

    def takes(self, row: FetchRow) -> bool:
        """Notes what the client could be told, and says whether it must be."""
        error, high_watermark, log_start = row.error_code, row.high_watermark, row.log_start_offset
        must = row.has_more or error != 0 or high_watermark != self.high_watermark or log_start != self.log_start
        # After an error the next high watermark is news, whatever it is.
        self.high_watermark = -1 if error else high_watermark
        self.log_start = log_start
        return must

    def watch(self, partition: Partition) -> None:
        """The session hears of it when the partition moves on."""
        if self.partition is not partition:
            self.forget()
            self.partition = partition
            partition.park(self, is_follower=self.session is not None and self.session.is_follower)

    def forget(self) -> None:
        """Nothing is heard any more."""
        if self.partition is not None:
            self.partition.waiting_fetches.unpark(self)
            self.partition = None

    # --- Waiter ---

    def advanced(self, partition: Partition) -> None:
        session = self.session
        if session is None or self.partition is not partition:
            partition.waiting_fetches.unpark(self)
            return
        if session.follower is not None and self.key not in session.live:
            # While it rested each request of its session found it with all that there was.
            leading.caught_up(partition, session.follower, session.used_ms)
        session.live.setdefault(self.key, self)
        if session.parked is not None:
            session.parked.moved(partition, self.asked)
        else:
            # One wake-up is enough: appends to a partition that a consumer lags behind in cost nothing.
            self.forget()

    def expire(self) -> None:
        if self.session is not None and self.session.parked is not None:
            self.session.parked.expire()


_place = attrgetter("place")
_used_ms = attrgetter("used_ms")


class Parked(Protocol):
    """A request of a session that waits for more bytes."""

    def moved(self, partition: Partition, asked: PartitionToRead) -> None: ...

    def expire(self) -> None: ...


class Loan(Protocol):
    """A session that the hub serves, as `ottla._core.SessionLoan` does."""

    @property
    def used(self) -> tuple[int, int]: ...

    def take_back(self) -> tuple[int, list[tuple[PartitionToRead, int, int]]]: ...


class FetchSession:
    """The memory of one client's session: its partitions, and what the client knows of them."""

    __slots__ = (
        "_loan_ended",
        "created_ms",
        "entries",
        "epoch",
        "follower",
        "id",
        "is_closed",
        "last_place",
        "live",
        "loan",
        "parked",
        "reader",
        "size_seen",
        "unanswered",
        "used_ms",
    )

    def __init__(self, session_id: int, follower: int | None, size: int, now_ms: int) -> None:
        self.id = session_id
        self.is_closed = False
        #: The broker that follows in this session; None: a consumer reads in it.
        self.follower = follower
        self.created_ms = self.used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.entries: dict[PartitionKey, CachedPartition] = {}
        self.live: dict[PartitionKey, CachedPartition] = {}
        self.parked: Parked | None = None
        self.last_place = 0
        #: While the hub serves the session.
        self.loan: Loan | None = None
        self._loan_ended: Callable[[], object] = int
        #: The requests of which this side has one and has not answered it.
        self.unanswered = 0
        #: Who has read so far.
        self.reader: Reader | None = None
        #: The number of partitions when it was last touched, or that it is about to have.
        self.size_seen = size

    @property
    def is_follower(self) -> bool:
        return self.follower is not None

    def add(self, entry: CachedPartition) -> bool:
        """Adds a partition that it does not have. False if the session is over."""
        if self.is_closed:
            return False
        entry.session = self
        self.entries[entry.key] = self.live[entry.key] = entry
        self._to_the_end(entry)
        return True

    def update(self, asked: Iterable[PartitionToRead]) -> None:
        """Takes what a request names: new partitions, and new offsets of known ones."""
        if self.is_closed:
            return
        entries, live = self.entries, self.live
        for one in asked:
            key = one.key
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = CachedPartition(one)
                entry.session = self
                self._to_the_end(entry)
            else:
                entry.asked = one
            live[key] = entry

    def drop(self, forgotten: Iterable[PartitionKey]) -> None:
        """Takes what leaves the session with a request."""
        for key in forgotten:
            entry = self.entries.pop(key, None)
            if entry is not None:
                entry.forget()
                entry.session = None
            self.live.pop(key, None)

    def is_stale(self, now_ms: int) -> bool:
        """True if the session's use is to be noted again: once in a while is enough, beside what decides who gives way.
        Of a follower each use counts, for it says that those partitions that rest are in sync.
        """
        return self.follower is not None or now_ms - self.used_ms > USED_MS

    def read_by(self, reader: Reader) -> None:
        """The next request is of `reader`: another one than before may find more in what rests."""
        if reader is not self.reader:
            self.reader = reader
            self.live = dict(self.entries)

    def in_order(self) -> list[CachedPartition]:
        """The live partitions, as they are read."""
        return sorted(self.live.values(), key=_place)

    def lend(
        self, lend: Callable[[list[tuple[PartitionToRead, int, int]]], Loan], ended: Callable[[], object] = int
    ) -> None:
        """The hub serves the session from now on. `lend` gets its partitions in the order of reading, each with the
        high watermark and the log start offset that the client was told. Nothing is heard of them meanwhile. `ended` is
        called when the session is taken back.
        """
        self._loan_ended = ended
        entries = sorted(self.entries.values(), key=_place)
        for entry in entries:
            entry.forget()
        self.live = {}
        self.loan = lend([(entry.asked, entry.high_watermark, entry.log_start) for entry in entries])

    def take_back(self) -> None:
        """The hub serves it no longer. What moved on meanwhile is not known: all partitions are live."""
        if self.loan is None:
            return
        loan, self.loan = self.loan, None
        self._loan_ended()
        self.look_at(loan)
        self.epoch, lent = loan.take_back()
        known, self.entries, self.live = self.entries, {}, {}
        for asked, high_watermark, log_start in lent:
            entry = known.pop(asked.key, None) or CachedPartition(asked)
            entry.asked, entry.high_watermark, entry.log_start = asked, high_watermark, log_start
            self.add(entry)
        for entry in known.values():
            entry.session = None

    def expire(self) -> None:
        """Ends a wait in it, while the hub serves it."""
        self.take_back()

    def look_at(self, loan: Loan) -> None:
        """Notes when a session that is lent was used."""
        used_ms, _ = loan.used
        self.used_ms = max(self.used_ms, used_ms)

    @property
    def size(self) -> int:
        """The number of its partitions, as its last request left it."""
        return self.size_seen if self.loan is None else self.loan.used[1]

    def told(self, entry: CachedPartition) -> None:
        """The answer names this partition: it stands behind all others next time."""
        if entry.session is self:
            self._to_the_end(entry)

    def _to_the_end(self, entry: CachedPartition) -> None:
        self.last_place += 1
        entry.place = self.last_place

    def rests(self, entry: CachedPartition, partition: Partition) -> None:
        """The client knows all of this partition: nothing is to be done before it moves on."""
        if entry.session is self:
            self.live.pop(entry.key, None)
            entry.watch(partition)

    def close(self) -> None:
        """The session is over; a request that waits is answered with what there is."""
        self.take_back()
        self.is_closed = True
        if self.parked is not None:
            self.parked.expire()
        for entry in self.entries.values():
            entry.forget()
            entry.session = None
        self.entries = {}
        self.live = {}


class FetchSessions:
    """A broker's sessions: at most `slots`, with Kafka's rules for who gives way.

    A session that was not used for EVICTION_MS gives way to any. Otherwise a smaller one gives way to a larger one: a
    consumer's to a follower's at once, and any that has lived for EVICTION_MS to any of its kind.
    """

    def __init__(self, slots: int, new_id: Callable[[], int] = lambda: random.randrange(1, EPOCH_MAX)) -> None:
        self._slots = slots
        self._new_id = new_id
        #: In the order of their last use.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        #: The partitions of all sessions. Those of one that is lent are counted when it is taken back.
        self._counted = 0
        self.evictions_total = 0
        #: Of either kind (a follower's, or not): the smallest that could have given way, and when that was looked up.
        self._refused: dict[bool, tuple[tuple[bool, int, int] | None, int]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions_cached(self) -> int:
        """The number of partitions of all sessions."""
        return sum(session.size for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        """Returns a session, which is not lent any more."""
        session = self._sessions.get(session_id)
        if session is not None and session.loan is not None:
            session.take_back()
            if not self.touch(session, session.used_ms):
                return None
        return session

    def touch(self, session: FetchSession, now_ms: int) -> bool:
        """The session is used. False if it has grown beyond what all may have: then it is over."""
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        size = len(session.entries)
        if size != session.size_seen:
            self._counted += size - session.size_seen
            session.size_seen = size
            if self._counted > PARTITIONS_MAX:
                return not self.remove(session.id)
        return True

    def create(self, size: int, follower: int | None, now_ms: int) -> FetchSession | None:
        """A new session for `size` partitions, which the caller adds; None if there is no room for it. `follower` is
        the broker that follows in it, None for a consumer.
        """
        if self._counted + size > PARTITIONS_MAX:
            return None
        if len(self._sessions) >= self._slots and not self._evict(size, follower is not None, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        self._counted += size
        session = self._sessions[session_id] = FetchSession(session_id, follower, size, now_ms)
        return session

    def remove(self, session_id: int) -> bool:
        """Ends a session; False if there is none."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        self._counted -= session.size_seen
        session.close()
        return True

    def _evict(self, size: int, is_follower: bool, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if oldest.loan is not None and now_ms - oldest.used_ms > EVICTION_MS:
            oldest = self._sort()
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.remove(oldest.id)
        else:
            smallest = self._smallest(is_follower, now_ms)
            # Where sizes are equal the one that is there stays.
            if smallest is None or (is_follower, size, 0) < smallest:
                self._refused.setdefault(is_follower, (smallest, now_ms))
                return False
            self._refused.clear()
            self.remove(smallest[2])
        self.evictions_total += 1
        return True

    def _sort(self) -> FetchSession:
        """Looks when the sessions that are lent were used, and puts all in the order of their last use again. Returns
        the first. The next look is due when the first one, again, seems not to have been used for long.
        """
        for session in self._sessions.values():
            if session.loan is not None:
                session.look_at(session.loan)
        for session in sorted(self._sessions.values(), key=_used_ms):
            self._sessions.move_to_end(session.id)
        return next(iter(self._sessions.values()))

    def _smallest(self, is_follower: bool, now_ms: int) -> tuple[bool, int, int] | None:
        """(follower, size, id) of the session that would give way first.

        With more clients than slots this is asked at every fetch of those without a session, so what it says when
        nobody gave way is kept for a second.
        """
        smallest, looked_up_ms = self._refused.get(is_follower, (None, -LOOK_UP_MS))
        if now_ms - looked_up_ms < LOOK_UP_MS:
            return smallest
        self._refused.pop(is_follower, None)
        candidates = (
            (session.is_follower, session.size, session.id)
            for session in self._sessions.values()
            if now_ms - session.created_ms > EVICTION_MS or (is_follower and not session.is_follower)
        )
        return min(candidates, default=None)
