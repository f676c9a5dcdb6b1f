"""Which offset of a mirror is which in the source."""

import pytest

from ottla.client.batches import Delivered
from ottla.kafka import TopicPartition
from ottla.mirror.formats import OffsetSync
from ottla.mirror.syncs import PAIRS_MAX, SENT_MAX, Syncs

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


class Acknowledged:
    """The receipt of a record that is at this offset of the mirror."""

    is_over = True

    def __init__(self, offset: int) -> None:
        self.offset = offset

    async def wait(self) -> Delivered:
        return Delivered(T, self.offset, -1)


async def send(made: Syncs, batches: int, records: int) -> None:
    """Batches whose records have offsets in the source that are 1000 larger."""
    for first in range(0, batches * records, records):
        last = first + records - 1
        await made.sent(T, 1000 + first, 1000 + last, records, Acknowledged(last))  # type: ignore[arg-type]


async def test_what_is_sent_at_once_has_more_pairs_than_one() -> None:
    """A group that is in the middle of it goes on near there."""
    made = Syncs(100)
    await send(made, 6, 40)
    written = await made.take()
    assert [each.upstream - 1000 for each in written] == [each.downstream for each in written]
    assert [each.downstream for each in written] == [0, 119, 239]
    assert made.translated(T, 1000) == 0
    assert made.translated(T, 1130) == 120
    assert await made.take(all_of_them=True) == []


async def test_a_large_batch_has_pairs_in_itself() -> None:
    made = Syncs(100)
    await send(made, 1, 1000)
    await made.take()
    assert made.translated(T, 1000 + 555) == 501
    # Where records are missing in the source, only its ends are known.
    gaps = Syncs(100)
    await gaps.sent(T, 1000, 2999, 1000, Acknowledged(999))  # type: ignore[arg-type]
    assert await gaps.take() == [OffsetSync(T, 1000, 0), OffsetSync(T, 2999, 999)]


async def test_so_many_pairs_at_once_and_not_more() -> None:
    made = Syncs(10)
    await send(made, 1000, 20)
    written = await made.take()
    assert len(written) <= SENT_MAX
    assert written[0] == OffsetSync(T, 1000, 0)
    assert written[-1] == OffsetSync(T, 20_999, 19_999)
