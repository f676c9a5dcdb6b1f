"""The comparison of replicas notices each way in which two logs can differ, and nothing else."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.replicas import differences, last_values, logs_equal, misplaced, sent_anew
from tests.faults.checker import Operation, Outcome, Send
from tests.log.batches import batch

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1
PRODUCER = (7, 0, 0)


def marker(offset: int, kind: int) -> bytes:
    key = struct.pack(">hh", 0, kind)
    return batch(b"\0" * 6, key=key, offset=offset, producer=(7, 0, -1), attributes=TRANSACTIONAL | CONTROL)


def within(offset: int, key: bytes, value: bytes) -> bytes:
    """A record of a transaction."""
    return batch(value, key=key, offset=offset, producer=PRODUCER, attributes=TRANSACTIONAL)


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    return [tmp_path / str(number) for number in (1, 2, 3)]


def write(directory: Path, *batches: bytes, topic: str = "t", partition: int = 0, segment: int = 0) -> None:
    folder = directory / f"{topic}-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{segment:020}.log").write_bytes(b"".join(batches))


LOG = [batch(b"a", b"b", epoch=0), batch(b"c", offset=2, epoch=1), batch(b"d", offset=3, epoch=1)]


def test_equal(directories: list[Path]) -> None:
    for directory in directories:
        write(directory, *LOG)
        write(directory, topic="t", partition=1)
        write(directory, batch(b"else"), topic="t-x")
    logs_equal(directories, "t")


def test_segments_may_differ_and_one_log_may_begin_later(directories: list[Path]) -> None:
    write(directories[0], *LOG)
    write(directories[1], LOG[0], LOG[1])
    write(directories[1], LOG[2], segment=3)
    write(directories[2], *LOG[1:], segment=2)
    assert differences(directories, "t") == []


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("leader_epoch=2", [*LOG[:2], batch(b"d", offset=3, epoch=2)]),
        ("crc=", [*LOG[:2], batch(b"x", offset=3, epoch=1)]),
        ("base_offset=4", [*LOG[:2], batch(b"d", offset=4, epoch=1)]),
        ("only one has", LOG[:2]),
        ("only one has", [*LOG, batch(b"e", offset=4, epoch=1)]),
        ("only one has", []),
    ],
)
def test_what_differs_is_told(directories: list[Path], what: str, other: list[bytes]) -> None:
    for directory in directories[:2]:
        write(directory, *LOG)
    write(directories[2], *other)
    (told,) = differences(directories, "t")
    assert what in told
    assert str(directories[2]) in told


def test_a_missing_replica_is_told(directories: list[Path]) -> None:
    assert "no replica" in differences(directories, "t")[0]
    for directory in directories[:2]:
        write(directory, *LOG)
    assert differences(directories, "t") == ["t-0: 2 replicas instead of 3"]
    assert differences(directories, "t", replicas=2) == []


@pytest.mark.parametrize(
    ("is_anew", "first", "second"),
    [
        (True, (7, 0, 5), (7, 1, 0)),
        (True, (7, 3, 5), (7, 5, 2)),
        (False, (7, 0, 5), (7, 0, 6)),
        (False, (7, 1, 5), (7, 0, 0)),
        (False, (7, 0, 5), (8, 1, 0)),
        (False, (-1, -1, -1), (-1, -1, -1)),
    ],
)
def test_a_record_that_its_producer_sent_anew(
    directories: list[Path], is_anew: bool, first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    write(
        directories[0], batch(b"a", b"b", producer=first), batch(b"c", offset=2), batch(b"b", offset=3, producer=second)
    )
    folder = directories[0] / "t-0"
    assert sent_anew(folder, (1, 3)) is is_anew
    assert not sent_anew(folder, (1, 4)), "one of them is not there"


def test_bytes_that_do_not_fit_their_crc_are_told(directories: list[Path]) -> None:
    """In all replicas alike: it is no difference, but corruption."""
    for directory in directories:
        write(directory, *LOG[:2], LOG[2][:-2] + b"?\0")
    with pytest.raises(AssertionError, match="the batch at 3 has CRC"):
        differences(directories, "t")


def test_compacted_topics_are_compared_by_key(directories: list[Path]) -> None:
    old, gone, new = batch(b"1", key=b"k"), batch(b"x", key=b"g", offset=1), batch(b"2", key=b"k", offset=2)
    tombstone, end = tombstone_of(b"g", 3), batch(b"e", key=b"end", offset=4)
    write(directories[0], old, gone, new, tombstone, end)
    write(directories[1], new, tombstone, end)
    write(directories[2], new, end)
    assert differences(directories, "t", compacted=True) == []
    write(directories[2], old, end)
    (told,) = differences(directories, "t", compacted=True)
    assert "b'k' is" in told
    write(directories[2], new)
    assert "they end at 5 and 3" in differences(directories, "t", compacted=True)[0]


def values(*batches: bytes, directory: Path) -> Iterator[tuple[bytes, bytes | None]]:
    write(directory, *batches)
    found, _ = last_values(directory / "t-0")
    return ((key, last.value) for key, last in found.items())


def test_what_was_aborted_is_no_value(directories: list[Path]) -> None:
    before, put = batch(b"1", key=b"k"), within(1, b"k", b"2")
    assert dict(values(before, put, marker(2, ABORT), directory=directories[0])) == {b"k": b"1"}
    assert dict(values(before, put, marker(2, COMMIT), directory=directories[0])) == {b"k": b"2"}
    assert dict(values(before, put, directory=directories[0])) == {b"k": b"2"}
    later = batch(b"3", key=b"k", offset=2)
    assert dict(values(before, put, later, marker(3, COMMIT), directory=directories[0])) == {b"k": b"3"}


def tombstone_of(key: bytes, offset: int) -> bytes:
    """A batch with one record without a value: the helper of the log's tests always writes one."""
    import crc32c

    made = bytearray(batch(b"", key=key, offset=offset))
    assert made[-2:] == b"\0\0"  # the length of the value, and no headers
    made[-2] = 1  # -1 as a varint
    struct.pack_into(">I", made, 17, crc32c.crc32c(bytes(made[21:])))
    return bytes(made)


@pytest.mark.parametrize(
    ("value", "offset", "said", "places"),
    [
        ("c", 2, "", []),
        ("c", None, "", []),
        ("c", 3, "c, acknowledged at 3, is at another offset", [[2], [2], [2]]),
        ("d", 3, "d, acknowledged at 3, is not in all replicas", [[3], [3], []]),
        ("d", None, "d, acknowledged at None, is not in all replicas", [[3], [3], []]),
        ("x", 4, "x, acknowledged at 4, is lost: it is in no replica", [[], [], []]),
        ("x", None, "x, acknowledged at None, is lost: it is in no replica", [[], [], []]),
    ],
)
def test_what_became_of_an_acknowledged_record(
    directories: list[Path], value: str, offset: int | None, said: str, places: list[list[int]]
) -> None:
    """The second replica begins later, and the third one lacks the last record."""
    write(directories[0], *LOG)
    write(directories[1], *LOG[1:], segment=2)
    write(directories[2], *LOG[:2])
    found = misplaced(directories, [Operation("writer", Outcome.OK, (Send(("t", 0), value, offset),))], "t", "other")
    assert [line.partition(": ")[2].partition(";")[0] for line in found] == [said] * bool(said)
    for line in found:
        assert re.findall(r"/\d': (\[\d*\])", line) == [str(each) for each in places]


def test_what_retention_took_and_what_was_not_acknowledged_is_not_looked_for(directories: list[Path]) -> None:
    for directory in directories:
        write(directory, *LOG[1:], segment=2)
    sends = [(Outcome.OK, Send(("t", 0), "a", 0)), (Outcome.UNKNOWN, Send(("t", 0), "x", 4))]
    assert misplaced(directories, [Operation("writer", outcome, (send,)) for outcome, send in sends], "t") == []
