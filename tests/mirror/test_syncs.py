"""Which offset of a mirror is which in the source."""

import pytest

from ottla.kafka import TopicPartition
from ottla.mirror.formats import OffsetSync
from ottla.mirror.syncs import PAIRS_MAX, Syncs

T = TopicPartition("t", 0)
pytestmark = pytest.mark.trio


def syncs(*pairs: tuple[int, int], lag_max: int = 10, is_written: bool = False) -> Syncs:
    made = Syncs(lag_max)
    for upstream, downstream in pairs:
        made.add(OffsetSync(T, upstream, downstream), is_written=is_written)
    return made


@pytest.mark.parametrize(("offset", "there"), [(9, None), (10, 0), (11, 1), (19, 1), (20, 7), (21, 8), (1000, 8)])
async def test_a_group_goes_on_at_the_last_pair_that_is_not_after_it(offset: int, there: int | None) -> None:
    assert syncs((10, 0), (20, 7)).translated(T, offset) == there
    assert syncs((10, 0)).translated(TopicPartition("t", 1), 10) is None


async def test_a_pair_is_written_when_offsets_have_moved() -> None:
    made = syncs((100, 0))
    assert await made.take() == [OffsetSync(T, 100, 0)]
    made.add(OffsetSync(T, 109, 9), is_written=False)
    assert await made.take() == []
    # As many as may be left out at the end, when nothing more comes.
    assert await made.take(all_of_them=True) == [OffsetSync(T, 109, 9)]
    made.add(OffsetSync(T, 119, 19), is_written=False)
    assert await made.take() == [OffsetSync(T, 119, 19)]
    # Markers of transactions in between.
    made.add(OffsetSync(T, 121, 40), is_written=False)
    assert await made.take() == [OffsetSync(T, 121, 40)]
    assert await made.take(all_of_them=True) == []


async def test_what_somebody_wrote_is_known() -> None:
    made = syncs((100, 0), is_written=True)
    assert await made.take(all_of_them=True) == []
    assert made.translated(T, 100) == 0


async def test_a_source_that_begins_anew() -> None:
    made = syncs((10, 0), (20, 10), (30, 20), is_written=True)
    made.add(OffsetSync(T, 20, 25), is_written=False)
    assert [made.translated(T, offset) for offset in (10, 20, 30)] == [0, 25, 26]
    assert await made.take() == [OffsetSync(T, 20, 25)]


async def test_memory_is_bounded() -> None:
    made = syncs(*((number, number) for number in range(PAIRS_MAX * 10)))
    assert len(made._pairs[T]) <= PAIRS_MAX
    # Never too far, and exact at the end.
    for offset in range(PAIRS_MAX * 10):
        there = made.translated(T, offset)
        assert there is None or there <= offset
    assert made.translated(T, PAIRS_MAX * 10 - 1) == PAIRS_MAX * 10 - 1
    made.forget(T)
    assert made.translated(T, 5) is None
