"""The records that a consumer has polled and not given yet."""

from ottla.client.consumer import Record
from ottla.client.hand import Hand
from ottla.kafka import TopicPartition

HERE, THERE, ELSEWHERE = (TopicPartition("t", number) for number in range(3))


def record(partition: TopicPartition, offset: int) -> Record:
    return Record(*partition, offset, -1, None, b"", [])


def test_what_was_given_is_read_and_the_rest_is_not() -> None:
    hand: Hand[Record] = Hand()
    hand.take([record(HERE, 7), record(HERE, 9), record(THERE, 3), record(THERE, 4)])
    positions = {HERE: 10, THERE: 5, ELSEWHERE: 2}
    assert hand.next_offsets(positions) == {HERE: 7, THERE: 3, ELSEWHERE: 2}
    hand.at = 1
    assert hand.next_offsets(positions) == {HERE: 9, THERE: 3, ELSEWHERE: 2}
    hand.at = 3
    assert hand.next_offsets(positions) == {HERE: 10, THERE: 4, ELSEWHERE: 2}
    assert hand.rest() == [record(THERE, 4)]
    assert hand.next_offsets({}) == {}
    hand.at = 4
    assert hand.next_offsets(positions) == positions


def test_a_partition_is_put_down() -> None:
    hand: Hand[Record] = Hand()
    hand.take([record(HERE, 1), record(THERE, 1), record(HERE, 2), record(HERE, 3)])
    hand.at = 1
    assert hand.put_down({HERE, ELSEWHERE}) == {HERE: 2}
    assert hand.rest() == [record(THERE, 1)]
    assert hand.put_down({ELSEWHERE}) == {}
    assert hand.rest() == [record(THERE, 1)]
