"""`_core.Log` and `_core.LogDirectory`: what the broker is built on."""

from pathlib import Path

import pytest

from ottla import _core, errors

from .batches import batch

CONFIG = _core.LogConfig()


def test_append_read_and_reopen(tmp_path: Path) -> None:
    directory = _core.LogDirectory.open(tmp_path)
    (log,) = directory.create("orders", [3], CONFIG)
    assert (log.topic, log.partition, log.start_offset, log.end_offset) == ("orders", 3, 0, 0)
    log.begin_epoch(5)
    first = log.append_bytes(batch(b"a", b"b"), 5)
    assert (first.base_offset, first.last_offset, first.append_time_ms, first.is_duplicate) == (0, 1, -1, False)
    assert log.append_bytes(batch(b"c", timestamp_ms=2_000), 5).base_offset == 2
    with pytest.raises(errors.NotLeaderOrFollower):
        log.append_bytes(batch(b"d"), 4)
    with pytest.raises(errors.OffsetOutOfRange):
        log.read(4, 100)
    read = log.read(1, 1 << 20)
    assert read.slice is not None
    assert read.length == len(read.slice.read()) == log.size_bytes
    assert log.read(3, 100).slice is None
    found = log.offset_for_timestamp(1_500)
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (2, 2_000, 5)
    assert log.flush() == log.flushed_offset == 3
    log.high_watermark = 3
    directory.close()

    again = _core.LogDirectory.open(tmp_path)
    assert again.was_clean
    logs, failures = again.load_all({}, CONFIG)
    assert not failures
    assert [(log.topic, log.partition, log.end_offset, log.high_watermark) for log in logs] == [("orders", 3, 3, 3)]
    assert logs[0].leader_epochs == [(5, 0)]
    again.close(clean=False)
    assert not _core.LogDirectory.open(tmp_path).was_clean


def test_a_directory_is_open_once(tmp_path: Path) -> None:
    directory = _core.LogDirectory.open(tmp_path)
    with pytest.raises(errors.StorageError, match="in use"):
        _core.LogDirectory.open(tmp_path)
    directory.close()
    _core.LogDirectory.open(tmp_path).close()
