"""Rules by which a log accepts records, starts a new segment, and gives up old ones, as Kafka does."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import _core, errors
from ottla._core import Log, LogConfig, LogEnd
from tests.support.waiting import eventually

from .batches import batch

HOUR_MS = 3_600_000


class Factory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory = _core.LogDirectory.open(path)
        self._next = 0

    def __call__(self, **settings: Any) -> Log:
        (log,) = self.directory.create("t", [self._next], LogConfig(**settings))
        self._next += 1
        return log


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Factory]:
    factory = Factory(tmp_path)
    yield factory
    factory.directory.close()


def bases(log: Log) -> list[int]:
    return [base for base, _ in log.segments]


# --- what is refused, with nothing changed ---


def refused(log: Log, data: bytes, error: type[Exception], match: str | None = None) -> None:
    before = (log.end_offset, log.size_bytes)
    with pytest.raises(error, match=match):
        log.append_bytes(data, 0)
    assert (log.end_offset, log.size_bytes) == before


def test_damaged_batches_are_refused(make: Factory) -> None:
    log = make()
    good = batch(b"a", b"b")
    ours = {*range(8), *range(12, 16)}  # offset and epoch are ours to set, the checksum leaves them out
    for at in set(range(len(good))) - ours:
        refused(log, good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :], errors.KafkaError)
    for length in range(len(good)):
        refused(log, good[:length], errors.KafkaError)
    refused(log, good + good, errors.InvalidRecord, "more than one")
    refused(log, batch(b"a", offset=5), errors.InvalidRecord, "base_offset")
    refused(log, batch(b"a", attributes=0x20), errors.InvalidRecord, "control")
    assert log.append_bytes(good, 0).last_offset == 1


def test_sizes(make: Factory) -> None:
    log = make(max_message_bytes=200, segment_bytes=10_000)
    refused(log, batch(b"x" * 200), errors.MessageTooLarge)
    log.append_bytes(batch(b"x" * 100), 0)
    log = make(max_message_bytes=1_000, segment_bytes=500)
    refused(log, batch(b"x" * 600), errors.RecordListTooLarge)


def test_timestamps(make: Factory) -> None:
    now_ms = time.time_ns() // 1_000_000
    log = make(message_timestamp_difference_max_ms=HOUR_MS)
    refused(log, batch(b"a", timestamp_ms=now_ms - 2 * HOUR_MS), errors.InvalidTimestamp)
    refused(log, batch(b"a", timestamp_ms=now_ms + 2 * HOUR_MS), errors.InvalidTimestamp)
    assert log.append_bytes(batch(b"a", timestamp_ms=now_ms), 0).append_time_ms == -1
    log = make(message_timestamp_type="LogAppendTime")
    info = log.append_bytes(batch(b"a", timestamp_ms=5), 0)
    assert now_ms <= info.append_time_ms <= time.time_ns() // 1_000_000
    piece = log.read(0, 1_000).slice
    assert piece is not None
    (stored,) = _core.read_batches(piece.read())
    assert stored.is_log_append_time
    assert stored.max_timestamp_ms == info.append_time_ms
    found = log.offset_for_timestamp(info.append_time_ms)
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (0, info.append_time_ms, 0)


def test_compacted_logs_need_keys(make: Factory) -> None:
    log = make(cleanup_policy="compact,delete")
    refused(log, batch(b"a"), errors.InvalidRecord, "records have been rejected")
    log.append_bytes(batch(b"a", key=b"k"), 0)


def test_a_follower_keeps_what_it_gets(make: Factory) -> None:
    log = make()
    data = batch(b"a", b"b", offset=10, epoch=3, timestamp_ms=7) + batch(b"c", offset=15, epoch=4)
    info = log.append_as_follower(data + batch(b"torn", offset=16, epoch=4)[:-1], 4)
    assert (info.base_offset, info.last_offset, log.end_offset) == (10, 15, 16)
    assert log.leader_epochs == [(3, 10), (4, 15)]
    piece = log.read(10, 1_000).slice
    assert piece is not None
    assert piece.read() == data
    with pytest.raises(errors.KafkaError, match="continue"):
        log.append_as_follower(batch(b"x", offset=15, epoch=4), 4)
    with pytest.raises(errors.CorruptMessage):
        log.append_as_follower(batch(b"x", offset=16, epoch=4)[:-1] + b"!", 4)
    with pytest.raises(errors.CorruptMessage, match="4 is newer than the leader's, which is 3"):
        log.append_as_follower(batch(b"x", offset=16, epoch=4), 3)
    # Its producers are remembered, so that it recognises their retries when it leads.
    log.append_as_follower(batch(b"d", b"e", offset=16, epoch=4, producer=(9, 0, 0)), 4)
    log.begin_epoch(5)
    again = log.append_bytes(batch(b"d", b"e", producer=(9, 0, 0)), 5)
    assert (again.base_offset, again.is_duplicate) == (16, True)


def test_many_logs_follow_and_are_cut(tmp_path: Path) -> None:
    directory = _core.LogDirectory.open(tmp_path)
    logs = directory.create("t", [0, 1, 2], _core.LogConfig())
    assert directory.follow({("t", 0): 3, ("t", 1): 3}) == {}
    for log in logs:
        log.append_as_follower(batch(b"a", epoch=3) + batch(b"b", offset=1, epoch=3), 3)
    failed = directory.follow({("t", 0): 2, ("t", 1): 3, ("t", 7): 3})
    # The first is in a newer epoch, the last is not there.
    assert {key: type(error) for key, error in failed.items()} == {
        ("t", 0): errors.NotLeaderOrFollower,
        ("t", 7): errors.StorageError,
    }
    with pytest.raises(errors.NotLeaderOrFollower):
        logs[0].append_as_follower(batch(b"c", offset=2, epoch=2), 2)
    with pytest.raises(errors.NotLeaderOrFollower):
        logs[0].truncate_to(0, 2)

    def ends(offset: int) -> list[LogEnd]:
        """The second is of an older epoch, the fourth is not there, the last is below everything."""
        rows = [(0, offset, 3), (1, offset, 2), (2, 1, 3), (7, offset, 3), (2, -1, 3)]
        return [LogEnd("t", partition, end, leader_epoch=epoch) for partition, end, epoch in rows]

    found = [type(error) for error in directory.truncate(ends(1))]
    none = type(None)
    assert found == [none, errors.NotLeaderOrFollower, none, errors.StorageError, errors.OffsetOutOfRange]
    assert [log.end_offset for log in logs] == [1, 2, 1]
    assert "t 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    found = [type(error) for error in directory.start_anew(ends(9))]
    assert found == [none, errors.NotLeaderOrFollower, none, errors.StorageError, errors.OffsetOutOfRange]
    assert [(log.start_offset, log.end_offset) for log in logs] == [(9, 9), (0, 2), (1, 1)]
    assert "t 0 9" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    logs[0].truncate_fully_and_start_at(5, leader_epoch=3)
    assert (logs[0].start_offset, logs[0].end_offset) == (5, 5)
    directory.close()


# --- when a segment ends ---


def test_a_segment_ends_before_it_grows_too_large(make: Factory) -> None:
    one = len(batch(b"x" * 50))
    log = make(segment_bytes=3 * one)
    for _ in range(7):
        log.append_bytes(batch(b"x" * 50), 0)
    assert bases(log) == [0, 3, 6]


def test_a_segment_ends_by_its_batches_own_clock(make: Factory) -> None:
    log = make(segment_ms=1_000)
    for timestamp_ms in (5_000, 5_900, 6_000, 6_001, 7_000, 100, 7_002):
        log.append_bytes(batch(b"x", timestamp_ms=timestamp_ms), 0)
    assert bases(log) == [0, 3, 6]


def test_a_segment_ends_when_an_index_is_full(make: Factory) -> None:
    log = make(segment_index_bytes=12 * 4, index_interval_bytes=0)
    for number in range(10):
        log.append_bytes(batch(b"x", timestamp_ms=1_000 + number), 0)
    assert len(bases(log)) > 1
    for base, _ in log.segments:
        assert (make.path / "t-0" / f"{base:020}.timeindex").stat().st_size <= 48


def test_a_segment_ends_where_its_index_cannot_say_the_offset(make: Factory) -> None:
    log = make()
    log.append_as_follower(batch(b"x", offset=0, epoch=0), 0)
    log.append_as_follower(batch(b"x", offset=2**31 - 1, epoch=0), 0)
    log.append_as_follower(batch(b"x", offset=2**31, epoch=0), 0)
    log.append_as_follower(batch(b"x", offset=2**40, epoch=0), 0)
    assert bases(log) == [0, 2**31, 2**40]
    assert log.read(2**39, 1_000).segment == 2**40


# --- what goes ---


def fill(log: Log, segments: int) -> None:
    for number in range(segments):
        log.append_bytes(batch(b"x" * 100, timestamp_ms=1_000 * number), 0)
        log.roll()


def test_retention_by_age_stops_at_the_high_watermark(make: Factory) -> None:
    log = make(retention_ms=2_000)
    fill(log, 5)
    assert log.delete_old_segments(10_000) == 0  # nothing is known to be replicated
    log.high_watermark = 3
    assert log.delete_old_segments(4_500) == 3
    assert (log.start_offset, bases(log)) == (3, [3, 4, 5])
    log.high_watermark = 5
    assert log.delete_old_segments(100_000) == 2
    assert (log.start_offset, log.end_offset, bases(log)) == (5, 5, [5])
    with pytest.raises(errors.OffsetOutOfRange):
        log.read(4, 100)


def test_retention_by_size_keeps_what_is_needed(make: Factory) -> None:
    log = make(retention_ms=-1, retention_bytes=2 * len(batch(b"x" * 100)))
    fill(log, 5)
    log.high_watermark = 5
    assert log.delete_old_segments(0) == 3
    assert bases(log) == [3, 4, 5]


def test_deleted_records_stay_deleted(make: Factory) -> None:
    log = make(cleanup_policy="compact", file_delete_delay_ms=0)
    for number in range(3):
        log.append_bytes(batch(b"a", b"b", key=b"k", timestamp_ms=number), 0)
        log.roll()
    with pytest.raises(errors.OffsetOutOfRange):
        log.set_start_offset(3)
    log.high_watermark = 6
    log.set_start_offset(3)
    make.directory.checkpoint_start_offsets()
    assert log.delete_old_segments(0) == 1
    assert bases(log) == [2, 4, 6]
    assert "t 0 3" in (make.path / "log-start-offset-checkpoint").read_text()
    assert not list((make.path / "t-0").glob("*.deleted"))
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (3, 1, 0)


def test_a_slice_outlives_its_segment(make: Factory) -> None:
    log = make(file_delete_delay_ms=0, retention_ms=0)
    log.append_bytes(batch(b"kept"), 0)
    piece = log.read(0, 1_000).slice
    assert piece is not None
    log.roll()
    log.high_watermark = 1
    assert log.delete_old_segments(10**15) == 1
    assert list((make.path / "t-0").glob(f"{0:020}.*")) == []
    assert piece.read().endswith(b"kept\0")


def test_the_high_watermark_is_checkpointed_by_itself(make: Factory) -> None:
    log = make()
    log.append_bytes(batch(b"a", b"b"), 0)
    log.high_watermark = 5
    assert log.high_watermark == 2
    file = make.path / "replication-offset-checkpoint"
    eventually("a thread writes it", file.exists)
    assert file.read_text() == "0\n1\nt 0 2\n"


def test_a_deleted_partition_leaves_at_once(make: Factory) -> None:
    log = make()
    log.append_bytes(batch(b"a"), 0)
    make.directory.delete("t", 0)
    assert not (make.path / "t-0").exists()
    (folder,) = make.path.glob("t-0.*-delete")
    assert len(folder.name) == len("t-0.") + 32 + len("-delete")
    with pytest.raises(errors.StorageError):
        log.append_bytes(batch(b"a"), 0)
    (again,) = make.directory.create("t", [0], LogConfig())
    assert again.end_offset == 0
    make.directory.close()
    make.directory = _core.LogDirectory.open(make.path)
    assert len(make.directory.load_all({}, LogConfig())[0]) == 1
    assert not folder.exists()


def test_creating_goes_on_where_it_was_interrupted(make: Factory) -> None:
    (make.path / "t-1").mkdir()
    logs = make.directory.create("t", [0, 1, 2], LogConfig())
    assert [(log.partition, log.end_offset) for log in logs] == [(0, 0), (1, 0), (2, 0)]
    assert [log.append_bytes(batch(b"a"), 0).base_offset for log in logs] == [0, 0, 0]
    assert make.directory.failure is None


def test_a_log_that_was_deleted_does_not_stop_retention(make: Factory) -> None:
    gone, log = make(segment_bytes=1000), make(segment_bytes=1000, retention_ms=1000)
    for _ in range(3):
        log.append_bytes(batch(b"x" * 600), 0)
    log.high_watermark = log.end_offset
    gone.close()
    deleted, error = make.directory.delete_old_segments(int(time.time() * 1000) + 24 * HOUR_MS)
    assert error is None
    assert [(each.topic, each.partition) for each in deleted] == [("t", 1)]
