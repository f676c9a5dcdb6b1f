"""Mistakes that a program may make with a `Log`, and what it is told."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from ottla import errors
from ottla._core import OneAtATime
from ottla.log import Log, LogConfig
from ottla.log import log as log_module
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "t-0", mode="a") as log:
        yield log


@pytest.mark.parametrize("value", [3, 3.5, [65, 66], {"a": 1}, object(), True])
def test_values_that_are_no_bytes_are_refused(log: Log, value: object) -> None:
    """bytes(3) would be three zeros, and bytes([65, 66]) two letters."""
    with pytest.raises(TypeError, match=f"a record's value is bytes, str or None, not {type(value).__name__}"):
        log.append(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a record's key"):
        log.append(b"", key=value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a record's header"):
        log.append(b"", headers={"h": value})  # type: ignore[dict-item]
    assert log.end_offset == 0


@pytest.mark.parametrize("records", [[5], [(1, b"2")], [(b"1", 2)], [(b"alone",)], [(b"a", b"b", (), b"d")]])
def test_so_are_records_of_another_form(log: Log, records: list[object]) -> None:
    with pytest.raises(TypeError, match="record"):
        log.append_many(records)  # type: ignore[arg-type]
    assert log.end_offset == 0


def test_bytes_of_all_kinds_are_taken(log: Log) -> None:
    log.append_many(["text", b"bytes", bytearray(b"array"), memoryview(b"view"), None])
    assert [record.value for record in log] == [b"text", b"bytes", b"array", b"view", None]


def test_times_are_milliseconds_or_datetimes(log: Log) -> None:
    when = datetime(2026, 5, 17, 10, 5, 3, 999_000, tzinfo=timezone(timedelta(hours=2)))
    log.append(b"a", timestamp_ms=when)
    log.append_many([b"b"], timestamp_ms=when.astimezone(UTC) + timedelta(milliseconds=1))
    assert [record.timestamp_ms for record in log] == [1779005103999, 1779005104000]
    assert log.find(when) == 0
    assert log.find(when + timedelta(milliseconds=1)) == 1


def test_a_closed_log_answers_every_call_with_an_error(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", mode="a") as written:
        written.append(b"one")
    read = Log.open(tmp_path / "t-0")
    read.close()
    read.close()
    for log in (written, read):
        for call in (
            lambda log: list(log),
            lambda log: list(log.records()),
            lambda log: log.end_offset,
            lambda log: log.topic,
            lambda log: log.find(0),
            lambda log: log.append(b"x"),
            lambda log: log.flush(),
            lambda log: log.refresh() or log.size_bytes,
            lambda log: list(log.columns()),
        ):
            with pytest.raises(errors.StorageError, match="the log is closed"):
                call(log)
        assert repr(log) == f"<Log {tmp_path / 't-0'} closed>"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"segment_bytes": 1}, "segment_bytes is 1; it must be from 14 to 2147483647"),
        ({"retention_ms": -2}, "retention_ms is -2; it must be from -1"),
        ({"cleanup_policy": "compact,delte"}, "cleanup_policy is 'delte'; it must be one of delete, compact"),
        ({"compression_type": "lzma"}, "compression_type is 'lzma'"),
        ({"message_timestamp_type": "Now"}, "message_timestamp_type is 'Now'"),
        ({"min_cleanable_dirty_ratio": 1.5}, "min_cleanable_dirty_ratio is 1.5"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        LogConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="segment_bytes is '5'"):
        LogConfig(segment_bytes="5")  # type: ignore[arg-type]


def test_settings_can_be_looked_at() -> None:
    config = LogConfig(segment_bytes=1_000_000, cleanup_policy="compact")
    assert (config.segment_bytes, config.retention_ms) == (1_000_000, 604_800_000)
    assert repr(config) == "LogConfig(segment_bytes=1000000, cleanup_policy='compact')"
    assert LogConfig.__doc__
    assert config == LogConfig(segment_bytes=1_000_000, cleanup_policy="compact")


def test_what_is_not_installed_is_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pyarrow, which is not installed: pip install 'ottla\[arrow\]'"):
        list(log.columns())


@pytest.mark.parametrize(
    ("name", "why"),
    [("a b-0", "no white space"), ("x-00", "begins with 0"), ("x", "no '-'"), ("x-y", "no number"), ("-0", "no topic")],
)
def test_a_wrong_name_says_what_is_wrong(tmp_path: Path, name: str, why: str) -> None:
    for mode in ("r", "a"):
        with pytest.raises(errors.InvalidRequest, match=f"TOPIC-NUMBER, as in orders-0, but .*{why}"):
            Log.open(tmp_path / name, mode)  # type: ignore[arg-type]
    assert not list(tmp_path.glob(name))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for kind in (FileNotFoundError, errors.StorageError):
        with pytest.raises(kind, match=r"there is no folder .*/none-0$"):
            Log.open(tmp_path / "none-0")
        with pytest.raises(kind, match=r"there is no folder .*/nowhere$"):
            Log.open(tmp_path / "nowhere" / "t-0", mode="a")


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 2**70, "1", 1.5, True])
def test_times_that_are_none(log: Log, time: object) -> None:
    for call in (
        lambda: log.append(b"", timestamp_ms=time),  # type: ignore[arg-type]
        lambda: log.append_many([b""], timestamp_ms=time),  # type: ignore[arg-type]
        lambda: log.find(time),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            TypeError, match=r"^(timestamp_ms|when) is a number of milliseconds in 64 bits, or a datetime"
        ):
            call()
    assert log.end_offset == 0


@pytest.mark.parametrize("headers", ["x", "xy", ["xy"], [("n",)], [(1, b"")], [("n", b"", b"")]])
def test_headers_that_are_none(log: Log, headers: object) -> None:
    with pytest.raises(TypeError, match=r"headers are a mapping or \(name, value\) pairs, and .* is no such pair"):
        log.append(b"", headers=headers)  # type: ignore[arg-type]
    assert log.end_offset == 0


@pytest.mark.parametrize("offset", ["1", 1.0, 2**63, True])
def test_offsets_that_are_none(log: Log, offset: object) -> None:
    log.append(b"one")
    for read in (log.records, log.columns):
        for bounds in ({"start": offset}, {"end": offset}):
            with pytest.raises(TypeError, match=f"^{next(iter(bounds))} is an offset, a number in 64 bits, not"):
                list(read(**bounds))  # type: ignore[operator]


@pytest.mark.parametrize("offset", ["1", 1.0, 2**63, True])
def test_offsets_that_are_none_cut_nothing(log: Log, offset: object) -> None:
    log.append(b"one")
    for cut in (log.truncate, log.delete_before):
        with pytest.raises(TypeError, match=r"^offset is an offset, a number in 64 bits, not"):
            cut(offset)  # type: ignore[arg-type]
    assert (log.start_offset, log.end_offset) == (0, 1)


@pytest.mark.parametrize("path", [b"t-0", 5, None])
def test_a_path_is_text(path: object) -> None:
    with pytest.raises(TypeError, match=r"^path is a str or an os\.PathLike of one, not "):
        Log.open(path)  # type: ignore[arg-type]


def test_headers_that_are_no_pairs_at_all(log: Log) -> None:
    with pytest.raises(TypeError, match=r"^a record's headers are a mapping or .*, not 3$"):
        log.append(b"", headers=3)  # type: ignore[arg-type]


def test_an_iterator_is_for_one_thread_at_a_time(log: Log) -> None:
    def numbers() -> Iterator[int]:
        yield 1
        other = threading.Thread(target=take_too)
        other.start()
        other.join(PATIENCE_S)
        yield 2

    def take_too() -> None:
        try:
            next(shared)
        except RuntimeError as error:
            problems.append(str(error))

    problems: list[str] = []
    shared = OneAtATime(numbers(), "records of t-0")
    assert list(shared) == [1, 2]
    assert problems == ["records of t-0: two threads use one iterator at once; give each thread an iterator of its own"]
    log.append_many([b"a", b"b", b"c"])
    assert isinstance(log.records(), OneAtATime)
    # One after the other is no mistake.
    records = iter(log)
    with ThreadPoolExecutor(1) as another:
        assert [next(records).offset, another.submit(next, records).result().offset, next(records).offset] == [0, 1, 2]
    records = log.records()
    next(records)
    records.close()  # type: ignore[attr-defined]
    assert list(records) == []


@pytest.mark.parametrize("is_reader", [True, False])
@pytest.mark.parametrize("as_columns", [True, False])
@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_reading_goes_on_while_records_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reader: bool, as_columns: bool, delay_ms: int
) -> None:
    if as_columns:
        module("arrow", "pyarrow")
    monkeypatch.setattr(log_module, "READ_BYTES", 1000)
    config = LogConfig(segment_bytes=1000, file_delete_delay_ms=delay_ms)
    with Log.open(tmp_path / "t-0", mode="a", config=config) as writer:
        for _ in range(50):
            writer.append_many([b"x" * 100] * 4)
        log = Log.open(tmp_path / "t-0") if is_reader else writer

        def offsets() -> Iterator[int]:
            if as_columns:
                for batch in log.columns(rows_max=1):
                    yield from batch.column("offset").to_pylist()
            else:
                for record in log.records():
                    yield record.offset

        found = offsets()
        assert next(found) == 0
        writer.delete_before(150)
        rest = list(found)
        # What was there already in memory, or in files that are kept; then nothing is missing that is left.
        assert rest == sorted(set(rest))
        assert rest[-50:] == list(range(150, 200))
        # The beginning of what is read is an error all the same.
        with pytest.raises(errors.OffsetOutOfRange):
            next(writer.records(start=10))
        log.close()


def test_reading_ends_where_the_log_was_truncated(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "READ_BYTES", 1000)
    for _ in range(50):
        log.append_many([b"x" * 100] * 4)
    records = log.records()
    assert next(records).offset == 0
    log.truncate(40)
    assert [record.offset for record in records][-1] < 40
