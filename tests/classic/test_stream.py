"""A stream of chunks: what is handed over, and what counts as consumed."""

import threading

import pytest

from ottla import _core
from ottla.classic import ConsumerTimeout, DefaultDecoder, InvalidMessage
from ottla.classic.stream import AnyStream, Chunk, KafkaStream
from ottla.kafka import TopicPartition
from tests.support.waiting import PATIENCE_S

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def stream(timeout_ms: int = 0, chunks_max: int = 2) -> AnyStream:
    return KafkaStream(DefaultDecoder(), DefaultDecoder(), timeout_ms, chunks_max)


def batch(start: int, count: int) -> bytes:
    return _core.encode_batch([(1, None, b"%d" % at, ()) for at in range(start, start + count)], base_offset=start)


def chunk(place: TopicPartition, start: int, count: int) -> Chunk:
    return Chunk(place, start, start + count, memoryview(batch(start, count)))


def test_what_was_handed_over_is_consumed() -> None:
    reading = stream()
    reading.start(FIRST, 0)
    assert reading.consumed() == {FIRST: 0}
    reading.put(chunk(FIRST, 0, 3))
    assert [next(reading).message, next(reading).message] == [b"0", b"1"]
    assert reading.consumed() == {FIRST: 2}
    next(reading)
    assert reading.consumed() == {FIRST: 3}
    with pytest.raises(ConsumerTimeout):
        next(reading)
    assert reading.consumed() == {FIRST: 3}


def test_several_are_taken_at_once() -> None:
    reading = stream()
    reading.put(chunk(FIRST, 0, 5))
    reading.put(chunk(SECOND, 0, 2))
    assert [each.offset for each in reading.take(3)] == [0, 1, 2]
    assert reading.consumed() == {FIRST: 3}
    assert [each.offset for each in reading.take(9)] == [3, 4]
    assert [(each.partition, each.offset) for each in reading.take(9)] == [(1, 0), (1, 1)]
    with pytest.raises(ConsumerTimeout):
        reading.take(9)
    damaged = bytearray(batch(6, 2))
    damaged[-1] ^= 1
    reading.put(Chunk(FIRST, 5, 8, memoryview(batch(5, 1) + bytes(damaged))))
    assert [each.offset for each in reading.take(9)] == [5]
    for _ in range(2):
        with pytest.raises(InvalidMessage, match="t-0 from offset 6 on"):
            reading.take(9)
    ended = stream()
    ended.close()
    assert ended.take(9) == []


def test_what_goes_to_another_member_is_not_handed_over() -> None:
    reading = stream()
    for place in (FIRST, SECOND):
        reading.put(chunk(place, 0, 3))
    reading.put(chunk(FIRST, 3, 3))
    assert next(reading).partition == 0
    assert reading.drop({FIRST}) == {FIRST: 1}
    assert [(each.partition, each.offset) for each in (next(reading), next(reading), next(reading))] == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    with pytest.raises(ConsumerTimeout):
        next(reading)
    assert reading.consumed() == {SECOND: 3}


def test_a_batch_that_is_damaged_is_never_passed() -> None:
    reading = stream()
    damaged = bytearray(batch(1, 2))
    damaged[-1] ^= 1
    reading.put(Chunk(FIRST, 0, 3, memoryview(batch(0, 1) + bytes(damaged))))
    reading.put(chunk(FIRST, 3, 1))
    assert next(reading).message == b"0"
    for _ in range(3):
        with pytest.raises(InvalidMessage, match="t-0 from offset 1 on"):
            next(reading)
    assert reading.drop({FIRST}) == {FIRST: 1}


def test_markers_are_consumed_and_not_handed_over() -> None:
    reading = stream()
    marker = _core.marker_batch(5, 0, True, 0, 1)
    reading.put(Chunk(FIRST, 0, 1, memoryview(_core.stamp(marker, 0, 0))))
    reading.put(chunk(SECOND, 0, 1))
    assert next(reading).partition == 1
    assert reading.consumed() == {FIRST: 1, SECOND: 1}


def test_a_problem_comes_after_what_was_fetched() -> None:
    reading = stream()
    reading.put(chunk(FIRST, 0, 1))
    reading.fail(RuntimeError("no"))
    assert next(reading).offset == 0
    with pytest.raises(RuntimeError):
        next(reading)


def test_its_end_wakes_the_reader() -> None:
    reading = stream(timeout_ms=-1)
    thread = threading.Thread(target=lambda: list(reading))
    thread.start()
    reading.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_room_is_told() -> None:
    reading = stream(chunks_max=1)
    told = []
    reading.has_room = lambda: told.append(reading.is_full)
    reading.put(chunk(FIRST, 0, 2))
    assert reading.is_full
    assert told == []
    next(reading)
    next(reading)
    assert told == [False]
