"""A log that is read beside whoever compacts it."""

from pathlib import Path

import pytest

from ottla.log import Log
from tests.spark.files import a_batch, swaps, write_segment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three segments of a hundred batches of ten records."""
    for first in (0, 1000, 2000):
        write_segment(tmp_path / "t-0", first, [a_batch(first + number, 10) for number in range(0, 1000, 10)])
    return tmp_path / "t-0"


def offsets(log: Log, start: int | None = None) -> list[int]:
    return [record.offset for record in log.records(start)]


def test_what_compaction_swaps_is_read_as_it_was_or_as_it_is(folder: Path) -> None:
    before = list(range(3000))
    after = [offset for offset in before if not (1000 <= offset < 2000 and offset // 10 % 2)]
    old = Log.open(folder)
    seen = []
    for state in swaps(folder):
        with Log.open(folder) as log:
            found = offsets(log)
            assert found in (before, after), state
            seen.append(found == after)
            for start in (5, 1234, 1990, 2500):
                assert offsets(log, start) == [offset for offset in found if offset >= start], (state, start)
        # Who opened it before goes on in what it has, whatever the indexes say by now.
        assert offsets(old) == before, state
        for start in (777, 1011, 1995):
            assert offsets(old, start) == before[start:], (state, start)
    assert seen == sorted(seen), "never back"
    assert (seen[0], seen[-1]) == (False, True)
    old.refresh()
    assert offsets(old) == after


def test_what_a_split_has_not_finished_does_not_count(folder: Path) -> None:
    (folder / f"{1500:020}.log.swap").write_bytes(b"".join(a_batch(number, 10) for number in range(1500, 2000, 10)))
    (folder / f"{1000:020}.log.cleaned").write_bytes(a_batch(1000, 10))
    with Log.open(folder) as log:
        assert offsets(log) == list(range(3000))
