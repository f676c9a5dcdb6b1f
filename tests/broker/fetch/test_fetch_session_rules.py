"""Who gets a fetch session and who gives way, without a broker."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from ottla import _core
from ottla._core import FetchRow, PartitionToRead
from ottla.broker.fetch.session import (
    EPOCH_MAX,
    EVICTION_MS,
    LOOK_UP_MS,
    CachedPartition,
    FetchSession,
    FetchSessions,
    next_epoch,
)
from ottla.replication.partition import Partition


def asked(partition: int, offset: int = 0, topic: str = "t") -> PartitionToRead:
    return PartitionToRead((topic, partition), offset, 1000)


def row(error: int, high_watermark: int, log_start: int, records: bytes = b"") -> FetchRow:
    return FetchRow(error, high_watermark=high_watermark, log_start_offset=log_start, records=records)


class Cache(FetchSessions):
    def __init__(self, slots: int) -> None:
        ids = count(1)
        super().__init__(slots, lambda: next(ids))

    def begin(self, size: int, now_ms: int = 0, *, follower: bool = False) -> int | None:
        session = self.create(size, 2 if follower else None, now_ms)
        if session is None:
            return None
        for index in range(size):
            assert session.add(CachedPartition(asked(index)))
        return session.id

    def ids(self) -> list[int]:
        return [session_id for session_id in range(1, 20) if self.get(session_id) is not None]


def test_without_slots_nobody_has_a_session() -> None:
    assert Cache(0).begin(5) is None


def test_one_that_was_not_used_for_long_gives_way_to_any() -> None:
    cache = Cache(2)
    assert (cache.begin(9, 0), cache.begin(9, 1)) == (1, 2)
    first = cache.get(1)
    assert first is not None
    cache.touch(first, 2)
    assert cache.begin(1, EVICTION_MS + 1) is None
    assert cache.begin(1, EVICTION_MS + 2 + LOOK_UP_MS) == 3
    assert cache.ids() == [1, 3]
    assert (cache.partitions_cached, cache.evictions_total) == (10, 1)


class Lent:
    """A session that the hub serves, which has changed its partitions."""

    def __init__(self, used_ms: int, *partitions: int) -> None:
        self.used_ms = used_ms
        self.partitions = partitions

    @property
    def used(self) -> tuple[int, int]:
        return self.used_ms, len(self.partitions)

    def take_back(self) -> tuple[int, list[tuple[PartitionToRead, int, int]]]:
        return 7, [(asked(index, 5), 9, 3) for index in self.partitions]


def lend(cache: Cache, session_id: int, loan: Lent) -> FetchSession:
    session = cache._sessions[session_id]
    session.lend(lambda entries: loan)
    return session


def test_one_that_is_lent_is_used_where_nobody_sees_it() -> None:
    cache = Cache(3)
    assert [cache.begin(1, now) for now in (0, 1, 2)] == [1, 2, 3]
    lend(cache, 1, Lent(60, 0))
    lend(cache, 2, Lent(50, 0))
    assert cache.begin(1, EVICTION_MS + 2) is None
    assert cache.begin(1, EVICTION_MS + LOOK_UP_MS + 3) == 4
    assert [*cache._sessions] == [2, 1, 4], "in the order of their last use"
    assert cache.evictions_total == 1


def test_one_that_is_lent_is_as_large_as_its_last_request_left_it() -> None:
    cache = Cache(2)
    assert [cache.begin(5, 0), cache.begin(5, 0)] == [1, 2]
    lend(cache, 1, Lent(EVICTION_MS, *range(9)))
    lend(cache, 2, Lent(EVICTION_MS, *range(7)))
    assert cache.partitions_cached == 16
    assert cache.begin(8, EVICTION_MS + 1) == 3
    assert (cache.ids(), cache.partitions_cached) == ([1, 3], 17)


def test_what_is_taken_back_is_what_the_hub_left() -> None:
    cache = Cache(1)
    assert cache.begin(3) == 1
    kept = lend(cache, 1, Lent(50, 2, 3, 0)).entries["t", 2]
    session = cache.get(1)
    assert session is not None
    assert (session.epoch, session.used_ms, session.loan) == (7, 50, None)
    assert [entry.key[1] for entry in session.in_order()] == [2, 3, 0]
    assert session.entries["t", 2] is kept
    assert (kept.asked.offset, kept.high_watermark, kept.log_start) == (5, 9, 3)
    assert cache.get(1) is session
    lend(cache, 1, Lent(60, 2))
    assert cache.remove(1)
    assert (session.loan, cache.partitions_cached, session.entries) == (None, 0, {})


def test_who_is_named_is_read_last_and_those_that_rest_keep_their_place(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    for index in range(3):
        session.add(CachedPartition(asked(index)))
    first = session.entries["t", 0]
    session.rests(first, partition)
    session.told(session.entries["t", 1])
    partition.resign()
    assert [entry.key[1] for entry in session.in_order()] == [0, 2, 1]


def test_a_reader_of_another_kind_reads_what_rests(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    session.reader = _core.Reader.COMMITTED
    session.add(CachedPartition(asked(0)))
    for reader, live in ((_core.Reader.COMMITTED, 0), (_core.Reader.CONSUMER, 1)):
        session.rests(session.entries["t", 0], partition)
        session.read_by(reader)
        assert len(session.live) == live


def test_a_smaller_one_that_has_had_its_time_gives_way_to_a_larger_one() -> None:
    cache = Cache(2)
    cache.begin(5, 0)
    cache.begin(7, 0)
    now = EVICTION_MS + 1
    for session_id in (1, 2):
        session = cache.get(session_id)
        assert session is not None
        cache.touch(session, now)
    assert cache.begin(5, now) is None, "the one that is there stays when sizes are equal"
    assert cache.begin(6, now) == 3
    assert cache.ids() == [2, 3]
    assert cache.begin(9, now) == 4, "the new one is young, the larger one is not"
    assert cache.ids() == [3, 4]


def test_a_follower_takes_a_consumers_place_at_once_and_keeps_its_own() -> None:
    cache = Cache(1)
    cache.begin(100)
    assert cache.begin(100) is None
    assert cache.begin(1, follower=True) == 2
    assert cache.begin(5, follower=True) is None
    assert cache.begin(1000, EVICTION_MS - 1) is None, "no consumer takes a follower's"
    session = cache.get(2)
    assert session is not None
    cache.touch(session, EVICTION_MS + 1)
    assert cache.begin(1000, EVICTION_MS + 1) is None
    assert cache.begin(5, EVICTION_MS + 1, follower=True) == 3


def test_a_closed_session_leaves_nothing_behind() -> None:
    cache = Cache(5)
    assert cache.begin(3) == 1
    assert cache.remove(1)
    assert not cache.remove(1)
    assert (len(cache), cache.partitions_cached) == (0, 0)


def test_all_sessions_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.fetch.session.PARTITIONS_MAX", 10)
    cache = Cache(5)
    assert (cache.begin(4), cache.begin(5), cache.begin(2)) == (1, 2, None)
    session = cache.get(1)
    assert session is not None
    session.update([asked(index) for index in range(5)])
    assert cache.touch(session, 1)
    session.update([asked(index) for index in range(6)])
    assert not cache.touch(session, 1)
    assert (cache.ids(), cache.partitions_cached) == ([2], 5)


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(0), next_epoch(7), next_epoch(EPOCH_MAX)] == [1, 8, 1]


@pytest.mark.parametrize(
    ("told", "must"),
    [
        (row(0, 10, 0), False),
        (row(0, 10, 0, b"records"), True),
        (FetchRow(high_watermark=10, log_start_offset=0, diverging_epoch=(1, 5)), True),
        (row(0, 11, 0), True),
        (row(0, 10, 1), True),
        (row(3, -1, -1), True),
    ],
)
def test_an_answer_names_only_what_changed(told: FetchRow, must: bool) -> None:
    entry = CachedPartition(asked(0), 10, 0)
    assert entry.takes(told) is must
    assert entry.takes(told) is (told.error_code != 0 or told.has_more), "it was told"


def test_after_an_error_the_high_watermark_is_news() -> None:
    entry = CachedPartition(asked(0), 10, 0)
    entry.takes(row(3, 10, 0))
    assert entry.takes(row(0, 10, 0))


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("t", [0], _core.LogConfig())
    yield Partition("t", 0, 1, log)
    directory.close(clean=True)


def test_a_resting_partition_is_live_again_when_it_moves_on(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    session.add(CachedPartition(asked(0)))
    session.add(CachedPartition(asked(1)))
    assert [*session.live] == [("t", 0), ("t", 1)]
    session.rests(session.entries["t", 0], partition)
    assert [*session.live] == [("t", 1)]
    partition.resign()
    assert [*session.live] == [("t", 1), ("t", 0)]
    assert not partition.waiting_fetches.consumers, "one wake-up is enough: appends to a lagging consumer cost nothing"


def test_what_is_asked_again_is_watched_once_more_and_then_no_longer(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    session.add(CachedPartition(asked(0)))
    session.rests(session.entries["t", 0], partition)
    session.update([asked(0, 5)])
    assert ([*session.live], [*partition.waiting_fetches.consumers]) == ([("t", 0)], [session.entries["t", 0]])
    partition.resign()
    assert ([*session.live], [*partition.waiting_fetches.consumers]) == ([("t", 0)], [])


def test_what_is_forgotten_is_not_watched_any_more(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    for forget in (lambda: session.drop([("t", 0)]), session.close):
        session.add(CachedPartition(asked(0)))
        session.rests(session.entries["t", 0], partition)
        assert partition.waiting_fetches.consumers
        forget()
        assert not partition.waiting_fetches.consumers
    assert not session.entries


def test_a_partition_that_was_made_anew_is_watched_in_place_of_the_old_one(partition: Partition) -> None:
    session = FetchSession(1, None, 0, 0)
    entry = CachedPartition(asked(0))
    session.add(entry)
    again = Partition("t", 0, 1, partition.log)
    for known in (partition, again):
        session.rests(entry, known)
        assert [*known.waiting_fetches.consumers] == [entry]
    assert not partition.waiting_fetches.consumers
