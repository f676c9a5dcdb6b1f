"""The order and the sequences of a partition's batches, without a broker."""

import struct

import pytest
import trio
import trio.testing

from ottla import _core
from ottla.client.batches import NOBODY, SEQUENCE_MASK, Batch, Identity, Queue, Receipt, numbered
from ottla.kafka import TopicPartition

pytestmark = pytest.mark.trio
FIRST, SECOND = Identity(7, 0), Identity(7, 1)


def batch(records: int = 3, *, is_numbered: bool = True) -> Batch:
    made = Batch(TopicPartition("t", 0), _core.BatchBuilder(), is_numbered=is_numbered)
    assert made.builder is not None
    for number in range(records):
        made.builder.append(1000, b"key", b"%d" % number)
        made.records += 1
    made.finish()
    return made


def queue(count: int, *, is_numbered: bool = True) -> tuple[Queue, list[Batch]]:
    """A queue whose leader, `a`, knows the producer."""
    made = Queue()
    made.add(batch(is_numbered=is_numbered))
    made.decided(made.take("a", FIRST))
    batches = [batch(is_numbered=is_numbered) for _ in range(count)]
    for each in batches:
        made.add(each)
    return made, batches


def take_all(made: Queue, identity: Identity, place: str = "a") -> list[Batch]:
    taken = []
    while made.may_send(place, identity, 0):
        taken.append(made.take(place, identity))
    return taken


async def test_a_numbered_batch_is_whole_and_has_the_same_records() -> None:
    made = batch()
    data = numbered(made.data, Identity(1 << 40, 9), 77)
    (info,) = _core.read_batches(data)  # checks the checksum
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (1 << 40, 9, 77)
    assert [each.value for each in _core.RecordReader(data)] == [b"0", b"1", b"2"]


async def test_several_are_under_way_in_order() -> None:
    made, batches = queue(3)
    assert take_all(made, FIRST) == batches
    assert [each.sequence for each in batches] == [3, 6, 9]
    made.add(late := batch())
    assert not made.may_send("b", FIRST, 0), "the leader has moved: those that are under way may come late there"
    for each in batches:
        assert not made.decided(each)
    assert take_all(made, FIRST, "b") == [late]
    assert late.sequence == 12


async def test_the_first_is_alone_until_it_is_acknowledged() -> None:
    """A leader that knows nothing of a producer would take the second, where it refused the first."""
    made = Queue()
    batches = [batch() for _ in range(4)]
    for each in batches:
        made.add(each)
    assert take_all(made, FIRST) == batches[:1]
    made.returned(batches[0])
    assert take_all(made, FIRST) == batches[:1]
    made.decided(batches[0], is_acknowledged=False)
    assert take_all(made, FIRST) == batches[1:2], "that one was refused"
    made.decided(batches[1])
    assert take_all(made, FIRST) == batches[2:]
    for each in batches[2:]:
        made.decided(each)
    for number in range(2):
        made.add(batch())
        assert made.may_send("b", FIRST, 0) == (number == 0), "another leader may have lost what it knew"
        if number == 0:
            made.take("b", FIRST)


async def test_without_sequences_one_is_under_way() -> None:
    made, batches = queue(3, is_numbered=False)
    assert take_all(made, NOBODY) == batches[:1]
    made.decided(batches[0])
    assert take_all(made, NOBODY) == batches[1:2]
    assert [each.sequence for each in batches] == [None] * 3


async def test_what_comes_back_goes_again_in_order_and_as_it_was() -> None:
    made, batches = queue(4)
    first, second, third = take_all(made, FIRST)[:3]
    fourth = batches[3]
    sent = [each.data for each in batches]
    made.decided(fourth)
    made.returned(second)
    made.add(batch())
    assert take_all(made, FIRST) == [], "the first and the third have no answers yet"
    made.returned(third, retry_at=5.0)
    assert take_all(made, FIRST) == []
    made.returned(first)
    assert take_all(made, FIRST) == [], "it is too early"
    again = [made.take("b", FIRST) for _ in range(3)]
    assert again == [first, second, third]
    assert [each.data for each in again] == sent[:3]


async def test_a_partition_begins_again_where_the_first_is_not_known() -> None:
    made, batches = queue(3)
    take_all(made, FIRST)
    made.decided(batches[0])
    assert made.is_first(batches[1])
    assert not made.is_first(batches[2])
    assert not made.returned(batches[1], begins_again=True)
    assert not made.is_first(batches[2]), "one before it has come back"
    assert made.returned(batches[2]), "now nothing is under way"
    made.add(batch())
    assert take_all(made, SECOND) == batches[1:2]
    made.decided(batches[1])
    assert [each.sequence for each in [batches[1], *take_all(made, SECOND)]] == [0, 3, 6]
    assert [_core.read_batches(each.data)[0].producer_epoch for each in made.flying] == [1, 1]


async def test_another_partition_takes_the_next_epoch_when_all_of_it_is_known() -> None:
    made, batches = queue(2)
    take_all(made, FIRST)
    for each in batches:
        made.returned(each)
    made.add(newer := batch())
    assert made.may_send("a", SECOND, 0)
    made.take("a", SECOND)
    assert batches[0].sequence == 3
    assert _core.read_batches(batches[0].data)[0].producer_epoch == 0, "its answer may be lost: it stays as it was"
    assert not made.may_send("a", SECOND, 0)
    made.decided(batches[0])
    assert take_all(made, SECOND) == [batches[1]]
    made.decided(batches[1])
    assert take_all(made, SECOND) == [newer]
    assert (newer.sequence, _core.read_batches(newer.data)[0].producer_epoch) == (0, 1)


async def test_sequences_begin_at_0_after_the_last() -> None:
    made, batches = queue(2)
    made.sequence = SEQUENCE_MASK - 1
    take_all(made, FIRST)
    assert [each.sequence for each in batches] == [SEQUENCE_MASK - 1, 1]
    assert struct.unpack_from(">i", batches[1].data, 53) == (1,)


async def test_any_number_of_tasks_wait_for_a_batch() -> None:
    made = Batch(TopicPartition("t", 0), _core.BatchBuilder(), is_numbered=True)
    offsets: list[int] = []
    async with trio.open_nursery() as nursery:

        async def wait(receipt: Receipt) -> None:
            offsets.append((await receipt.wait()).offset)

        for _ in range(3):
            made.records += 1
            nursery.start_soon(wait, Receipt(made, 1000))
        await trio.testing.wait_all_tasks_blocked()
        made.base_offset = 7
        made.end()
    assert sorted(offsets) == [7, 8, 9]
