"""Which log is compacted next, and what a directory remembers of compaction."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla import _core
from ottla.config import BrokerConfig
from ottla.replication.cleaner import CleanerSettings, describe, dirty_ratio, filthiest, is_due
from tests.peers.processes import is_readable
from tests.support.waiting import PATIENCE_S


def log(clean: int, cleanable: int, *, overdue_ms: int = 0, ratio_min: float = 0.5) -> Any:
    return SimpleNamespace(
        clean_bytes=clean, cleanable_bytes=cleanable, overdue_ms=overdue_ms, dirty_ratio_min=ratio_min
    )


def test_the_dirtiest_log_that_is_dirty_enough_is_next() -> None:
    assert filthiest([]) is None
    half, most, little = log(50, 50), log(10, 90), log(90, 10)
    assert [dirty_ratio(each) for each in (half, most, little, log(0, 0))] == [0.5, 0.9, 0.1, 0.0]
    assert filthiest([half, little]) is None, "half is not more than half"
    assert filthiest([half, most, little, log(40, 60)]) is most
    patient = log(100, 900, ratio_min=0.95)
    assert filthiest([patient]) is None
    assert filthiest([patient, log(40, 60)]) is not patient


def test_a_log_that_waited_too_long_is_due_however_little_is_dirty() -> None:
    assert is_due(log(99, 1, overdue_ms=1))
    assert not is_due(log(99, 1, overdue_ms=0))
    assert not is_due(log(99, 0, overdue_ms=1)), "there is nothing to clean"
    assert not is_due(log(0, 0, overdue_ms=1))


def test_memory_is_shared_by_the_threads() -> None:
    settings = {"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "8388608", "log.dirs": "/none"}
    cleaner = CleanerSettings.of(BrokerConfig.load(None, settings))
    assert (cleaner.threads, cleaner.map_bytes, cleaner.io_bytes) == (4, 2 << 20, 131072)
    assert (cleaner.map_load_factor, cleaner.backoff_ms) == (0.9, 15000)
    assert cleaner.bytes_per_second > 1e300


COMPACTED = _core.LogConfig(segment_bytes=1000, cleanup_policy="compact", file_delete_delay_ms=0)


def fill(native: _core.Log, keys: list[bytes | None]) -> None:
    for number, key in enumerate(keys):
        builder = _core.BatchBuilder()
        builder.append(number, key, b"v" * 50)
        native.append_bytes(builder.finish(), 0)
    native.high_watermark = native.end_offset


def clean(directory: _core.LogDirectory, candidate: _core.Cleanable) -> _core.CleanReport | None:
    """On the cleaner's thread; raises what it raised."""
    hub = _core.Hub(supported={})
    cleaner = _core.LogCleaner(1, map_bytes=1 << 20, map_load_factor=0.9, io_bytes=1 << 16, bytes_per_second=1e300)
    cleaner.clean(directory, candidate, hub.completions, 1)
    assert is_readable(hub, PATIENCE_S)
    completion = hub.next()
    assert isinstance(completion, _core.Completion)
    if completion.error is not None:
        raise completion.error
    return completion.value  # type: ignore[no-any-return]


def test_what_is_clean_is_remembered(tmp_path: Path) -> None:
    directory = _core.LogDirectory.open(tmp_path)
    (native,) = directory.create("t", [0], COMPACTED)
    fill(native, [b"%d" % (number % 3) for number in range(60)])
    (candidate,) = directory.cleanable(0)
    assert (candidate.topic, candidate.partition, candidate.first_dirty_offset) == ("t", 0, 0)
    report = clean(directory, candidate)
    assert report is not None
    assert report.end_offset == candidate.first_uncleanable_offset == native.cleaned_offset
    assert report.records_written == 3 < report.records_read
    assert f"compacted to offset {report.end_offset}" in describe(report)
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\nt 0 {report.end_offset}\n"
    (again,) = directory.cleanable(0)
    assert (again.first_dirty_offset, again.cleanable_bytes) == (report.end_offset, 0)
    directory.close(clean=True)
    directory = _core.LogDirectory.open(tmp_path)
    (native,) = directory.load_all({}, COMPACTED)[0]
    assert native.cleaned_offset == report.end_offset
    directory.delete("t", 0)
    (native,) = directory.create("t", [0], COMPACTED)
    assert native.cleaned_offset is None, "a topic of the same name starts anew"
    directory.close(clean=True)


def test_a_log_with_damage_is_set_aside(tmp_path: Path) -> None:
    directory = _core.LogDirectory.open(tmp_path)
    good, bad = directory.create("t", [0, 1], COMPACTED)
    for native in (good, bad):
        fill(native, [b"k"] * 30)
    first = tmp_path / "t-1" / "00000000000000000000.log"
    content = bytearray(first.read_bytes())
    content[70] ^= 1
    first.write_bytes(content)
    candidates = {found.partition: found for found in directory.cleanable(0)}
    with pytest.raises(Exception, match=r"00000000000000000000\.log at byte 0: .* the stored checksum"):
        clean(directory, candidates[1])
    assert "checksum" in (bad.uncleanable or "")
    assert [found.partition for found in directory.cleanable(0)] == [0]
    assert clean(directory, candidates[0]) is not None
    assert good.uncleanable is None
    directory.close(clean=True)
