"""`SimpleConsumer` and `SyncProducer`, beside Java's of 0.8.2 and 0.10.2."""

import pytest

from ottla.classic import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequest,
    InvalidMessage,
    Message,
    MessageSet,
    MessageSizeTooLarge,
    ProducerRequest,
    SimpleConsumer,
    SyncProducer,
    TopicPartition,
)
from ottla.errors import NotLeaderOrFollower, OffsetOutOfRange, UnknownTopicOrPartition
from tests.classic.conftest import Place, group
from tests.peers.old_clients import VERSIONS, run

HOST = "127.0.0.1"


def consumer(place: Place, **waits: int) -> SimpleConsumer:
    return SimpleConsumer(HOST, place.port, 30_000, 65_536, "tests", **waits)


def filled(place: Place, values: list[bytes], *, partitions: int = 1, compression: str = "none") -> str:
    topic = place.topic(partitions)
    with SyncProducer(HOST, place.port) as producer:
        assert producer.send(topic, [Message(value) for value in values], compression=compression) == 0
    return topic


def values(messages: MessageSet) -> list[bytes | None]:
    return [each.message.value for each in messages]


def test_messages_come_back_with_their_offsets(place: Place) -> None:
    topic = place.topic()
    with SyncProducer(HOST, place.port) as producer, consumer(place) as reader:
        assert producer.send(topic, [Message(b"a", b"k"), Message(None, b"k")]) == 0
        assert producer.send(topic, [Message(b"c", timestamp_ms=1234)], compression="gzip") == 2
        found = reader.fetch(FetchRequest(topic, 0, 0, 100_000))
        assert [(each.offset, each.message.key, each.message.value) for each in found] == [
            (0, b"k", b"a"),
            (1, b"k", None),
            (2, None, b"c"),
        ]
        assert list(found)[2].message.timestamp_ms == 1234
        assert [each.next_offset for each in found] == [1, 2, 3]
        assert found.high_watermark == 3
        assert values(reader.fetch(FetchRequest(topic, 0, 2, 100_000))) == [b"c"]
        assert values(reader.fetch(FetchRequest(topic, 0, 3, 100_000))) == []


def test_a_set_ends_before_the_message_that_was_cut_off(place: Place) -> None:
    topic = place.topic()
    with SyncProducer(HOST, place.port) as producer, consumer(place) as reader:
        for _ in range(10):
            producer.send(topic, [Message(b"x" * 100)])
        found = reader.fetch(FetchRequest(topic, 0, 0, 500))
        count = len(list(found))
        assert 1 < count < 10
        assert found.valid_bytes <= found.size_bytes <= 500
        assert [each.offset for each in found] == list(range(count))
        assert next(iter(reader.fetch(FetchRequest(topic, 0, count, 500)))).offset == count


@pytest.mark.java
@pytest.mark.zookeeper
def test_our_broker_gives_a_message_whole_where_kafka_cuts_it_off(ours: Place) -> None:
    topic = filled(ours, [b"x" * 10_000])
    with consumer(ours) as reader:
        assert values(reader.fetch(FetchRequest(topic, 0, 0, 1000))) == [b"x" * 10_000]


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_message_larger_than_the_fetch_raises_and_doubling_finds_it(theirs: Place) -> None:
    topic = filled(theirs, [b"x" * 10_000, b"y"])
    with consumer(theirs) as reader:
        with pytest.raises(MessageSizeTooLarge, match="offset 0 is larger than the 1000 bytes"):
            reader.fetch(FetchRequest(topic, 0, 0, 1000))
        found = reader.fetch_doubling(FetchRequest(topic, 0, 0, 1000))
        assert found.asked_bytes == 16_000
        assert len(values(found)[0] or b"") == 10_000
        with pytest.raises(MessageSizeTooLarge, match="6000 bytes"):
            reader.fetch_doubling(FetchRequest(topic, 0, 0, 1000), largest_bytes=6000)


def test_many_partitions_are_asked_at_once_and_fail_apart(place: Place) -> None:
    topic = place.topic(2)
    with SyncProducer(HOST, place.port) as producer, consumer(place) as reader:
        results = producer.multi_send(
            [
                ProducerRequest(topic, 0, [Message(b"a")]),
                ProducerRequest(topic, 7, [Message(b"?")]),
                ProducerRequest(topic, 1, [Message(b"b")]),
                ProducerRequest(topic, 0, [Message(b"c")]),
            ]
        )
        assert [each.offset for each in results] == [0, -1, 0, 1]
        assert isinstance(results[1].error, UnknownTopicOrPartition)
        sets = reader.multifetch(
            [FetchRequest(topic, 1, 0, 1000), FetchRequest(topic, 0, 99, 1000), FetchRequest(topic, 0 + 9, 0, 1000)]
        )
        assert values(sets[0]) == [b"b"]
        with pytest.raises(OffsetOutOfRange):
            list(sets[1])
        with pytest.raises((UnknownTopicOrPartition, NotLeaderOrFollower)):
            list(sets[2])
        with pytest.raises(ValueError, match="twice"):
            reader.multifetch([FetchRequest(topic, 0, 0, 10), FetchRequest(topic, 0, 0, 10)])


def test_an_offset_out_of_range_raises(place: Place) -> None:
    topic = filled(place, [b"a"])
    with consumer(place) as reader, pytest.raises(OffsetOutOfRange, match=f"{topic}-0 at offset 2"):
        reader.fetch(FetchRequest(topic, 0, 2, 1000))


def test_offsets_before_a_time_are_those_that_java_gets(place: Place) -> None:
    topic = place.topic(segment_bytes="1024")
    with SyncProducer(HOST, place.port) as producer, consumer(place) as reader:
        for _ in range(6):
            producer.send(topic, [Message(b"x" * 300)])
        ends = reader.get_offsets_before(topic, 0, LATEST_TIME, 100)
        assert ends[0] == 6
        assert ends[-1] == 0
        assert ends == sorted(ends, reverse=True)
        assert len(ends) > 2
        assert reader.get_offsets_before(topic, 0, LATEST_TIME, 2) == ends[:2]
        assert reader.get_offsets_before(topic, 0, EARLIEST_TIME, 9) == [0]
        with pytest.raises(UnknownTopicOrPartition):
            reader.get_offsets_before(topic, 3, LATEST_TIME, 1)
    java = run(VERSIONS[-1], "offsets", HOST, str(place.port), topic, "0", "-1", "100")
    assert java == ["error 0", *map(str, ends)]


@pytest.mark.java
@pytest.mark.zookeeper
def test_java_and_ours_fetch_the_same(ours: Place) -> None:
    topic = filled(ours, [b"value-%d" % number for number in range(20)], compression="snappy")
    lines = run(VERSIONS[0], "fetch", HOST, str(ours.port), topic, "0", "0", "100000")
    with consumer(ours) as reader:
        found = [
            f"{each.offset} {(each.message.value or b'').decode()}"
            for each in reader.fetch(FetchRequest(topic, 0, 0, 100_000))
        ]
    assert lines == ["error 0", *found]


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_offsets_are_kept_in_both_storages(place: Place, storage: str) -> None:
    topic, mine = place.topic(2), group()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    other = "kafka" if storage == "zookeeper" else "zookeeper"
    with consumer(place) as reader:
        assert reader.fetch_offsets(mine, [first], storage=storage) == {}  # type: ignore[arg-type]
        reader.commit_offsets(mine, {first: 5, second: 0}, storage=storage)  # type: ignore[arg-type]
        assert reader.fetch_offsets(mine, [first, second], storage=storage) == {first: 5, second: 0}  # type: ignore[arg-type]
        assert reader.fetch_offsets(mine, [first], storage=other) == {}  # type: ignore[arg-type]


def test_a_damaged_message_raises() -> None:
    from ottla import _core

    data = bytearray(_core.encode_messages([(1, None, b"abc")], magic=1))
    data[-1] ^= 1
    with pytest.raises(InvalidMessage, match="from offset 0"):
        list(MessageSet(bytes(data)))


def test_a_connection_that_broke_is_made_anew(place: Place) -> None:
    topic = filled(place, [b"a"])
    with consumer(place) as reader:
        assert values(reader.fetch(FetchRequest(topic, 0, 0, 1000))) == [b"a"]
        inner = reader._connection._connection
        assert inner is not None
        inner.close()
        assert values(reader.fetch(FetchRequest(topic, 0, 0, 1000))) == [b"a"]
    with pytest.raises(OSError, match="closed here"):
        reader.fetch(FetchRequest(topic, 0, 0, 1000))


def test_nobody_listens(free_port: int) -> None:
    with SimpleConsumer(HOST, free_port) as reader, pytest.raises(OSError, match="refused"):
        reader.fetch(FetchRequest("t", 0, 0, 1000))
