"""Lookups in a partition's indexes: of a large log they read next to nothing."""

import os
from pathlib import Path

import pytest

from ottla.reading.segments import OFFSET_ENTRY, TIME_ENTRY, segments
from tests.spark.files import BASE_MS, a_batch, write_segment

ENTRIES = 200_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One batch, with the indexes of a segment of 800 MB, preallocated with zeros as a live broker does."""
    path = write_segment(tmp_path / "t-0", 5, [a_batch(5 + ENTRIES, 10)], index=False)
    path.with_suffix(".index").write_bytes(
        b"".join(OFFSET_ENTRY.pack(number, 0) for number in range(1, ENTRIES)) + bytes(4096)
    )
    path.with_suffix(".timeindex").write_bytes(
        b"".join(TIME_ENTRY.pack(BASE_MS + number, number) for number in range(1, ENTRIES)) + bytes(4092)
    )
    return tmp_path / "t-0"


def test_a_lookup_reads_few_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, position: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, position)

    monkeypatch.setattr(os, "pread", counted)
    (segment,) = segments(folder)
    for number in (1, 2, 77_777, ENTRIES - 1):
        assert segment.offset_before(BASE_MS + number + 1) == 5 + number
    assert segment.offset_before(BASE_MS + 10 * ENTRIES) == 5 + ENTRIES - 1
    assert segment.offset_before(BASE_MS) == 4
    assert segment.position_of(5 + ENTRIES) == 0
    assert 0 < sum(sizes) < 7 * 20 * TIME_ENTRY.size


def test_an_index_that_is_cut_off_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread = os.pread

    def cut(descriptor: int, size: int, position: int) -> bytes:
        return pread(descriptor, size, position)[: 0 if position > 1000 * TIME_ENTRY.size else size]

    monkeypatch.setattr(os, "pread", cut)
    (segment,) = segments(folder)
    assert segment.offset_before(BASE_MS + 500) == 5 + 499
    assert segment.offset_before(BASE_MS + 5000) == 5 + 1001
