"""Requests that a broker refuses for their size, their time or their name, and what it says of them; and the limits of
its answers.
"""

import struct
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla import _core
from ottla.errors import (
    InvalidRequest,
    InvalidTimestamp,
    InvalidTopic,
    MessageTooLarge,
    RecordListTooLarge,
    TopicDeletionDisabled,
)
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.operations import list_offset
from tests.support.waiting import PATIENCE_S

MESSAGE_MAX, REQUEST_MAX, FETCH_MAX = 3_000, 200_000, 4_096


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {
        "message.max.bytes": MESSAGE_MAX,
        "socket.request.max.bytes": REQUEST_MAX,
        "fetch.max.bytes": FETCH_MAX,
        "delete.topic.enable": "false",
    }
    with Brokers(tmp_path_factory.mktemp("limits")) as brokers:
        yield brokers(settings=settings)


def of_size(size_bytes: int, **options: object) -> bytes:
    """A batch of exactly this size."""
    made = batch(b"x" * (size_bytes - 72), **options)
    made = batch(b"x" * (2 * size_bytes - 72 - len(made)), **options)
    assert len(made) == size_bytes
    return made


def produced(client: Client, topic: str, records: bytes) -> int:
    ((row,),) = [row.partitions for row in client.produce(topic, records).responses]
    assert (row.base_offset >= 0) == (row.error_code == 0)
    return row.error_code


@pytest.mark.parametrize(("own", "limit"), [(None, MESSAGE_MAX), ("500", 500), ("50000", 50_000)])
def test_a_batch_may_have_as_many_bytes_as_its_topic_says(client: Client, own: str | None, limit: int) -> None:
    topic = f"size-{limit}"
    client.create(topic, **({"max_message_bytes": own} if own else {}))
    assert produced(client, topic, of_size(limit + 1)) == MessageTooLarge.code
    assert produced(client, topic, of_size(limit)) == 0
    assert [len(value or b"") > limit - 100 for value in values(client.fetch(topic))] == [True]


def test_a_batch_that_becomes_too_large_when_it_is_unpacked_is_refused(client: Client) -> None:
    client.create("unpacked", compression_type="uncompressed", max_message_bytes="1000")
    packed = batch(b"x" * 5_000, compression="gzip")
    assert len(packed) < 500
    assert produced(client, "unpacked", packed) == MessageTooLarge.code
    assert produced(client, "unpacked", batch(b"x" * 800, compression="gzip")) == 0
    # Packing does not save one that came too large.
    client.create("packed", compression_type="gzip", max_message_bytes="1000")
    assert produced(client, "packed", batch(b"x" * 5_000)) == MessageTooLarge.code


def test_a_batch_larger_than_a_segment_is_refused(client: Client) -> None:
    client.create("segment", segment_bytes="400")
    assert produced(client, "segment", of_size(401)) == RecordListTooLarge.code
    assert produced(client, "segment", of_size(400)) == 0


def test_librdkafka_hears_of_a_record_that_is_too_large(shared_broker: Broker, client: Client) -> None:
    client.create("told")
    outcomes: list[int] = []
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "message.max.bytes": 1_000_000})
    for size in (MESSAGE_MAX, 100):
        producer.produce("told", b"x" * size, callback=lambda error, _: outcomes.append(error.code() if error else 0))
        producer.flush(PATIENCE_S)
    assert outcomes == [KafkaError.MSG_SIZE_TOO_LARGE, 0]


def test_a_request_that_is_too_large_ends_its_connection_and_no_other(client: Client, shared_broker: Broker) -> None:
    client.create("request", max_message_bytes=str(10 * REQUEST_MAX))

    def frame(size_bytes: int) -> bytes:
        """A Produce of exactly this size without its own length."""

        def made(record_bytes: int) -> bytes:
            row = PartitionProduceData(partition_index=0, records=batch(b"x" * record_bytes))
            topics = [TopicProduceData(name="request", partitions=[row])]
            request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=60_000, topics=topics)
            return request_frame(0, 7, 1, "t", PRODUCE.encode_request(7, request))

        first = made(size_bytes - 200)
        return made(size_bytes - 200 + size_bytes + 4 - len(first))

    for size, is_served in ((REQUEST_MAX, True), (REQUEST_MAX + 1, False)):
        with connect(shared_broker) as other:
            sent = frame(size)
            assert len(sent) == size + 4
            try:
                other._socket.sendall(sent)
                length = other._socket.recv(4)
            except OSError:
                length = b""
            assert (len(length) == 4 and struct.unpack(">i", length)[0] > 0) == is_served
    assert len(values(client.fetch("request"))) == 1


def test_an_answer_has_no_more_than_the_least_limit_but_for_its_first_batch(client: Client) -> None:
    client.create("answer", partitions=3, max_message_bytes="100000")
    for partition in range(3):
        for _ in range(3):
            client.produce("answer", of_size(1_500), partition=partition)
    client.create("large", max_message_bytes="100000")
    client.produce("large", of_size(50_000))

    def sizes(max_bytes: int, partition_max_bytes: int, *, large: bool = False) -> list[int]:
        rows = [
            FetchPartition(
                partition=partition, fetch_offset=0, partition_max_bytes=partition_max_bytes, current_leader_epoch=-1
            )
            for partition in range(3)
        ]
        topics = [FetchTopic(topic="answer", partitions=rows)]
        if large:
            topics.insert(0, FetchTopic(topic="large", partitions=rows[:1]))
        request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, topics=topics)
        answer = client.call(FETCH, request, 11)
        return [len(row.record_set or b"") for topic in answer.responses for row in topic.partition_responses]

    assert sizes(1 << 30, 1 << 20) == [4_096, 0, 0], "fetch.max.bytes of the broker; the last batch is cut off"
    assert sizes(1 << 30, 1_600) == [1_600, 1_600, 896]
    assert sizes(2_000, 1 << 20) == [2_000, 0, 0]
    assert sizes(100, 100) == [1_500, 0, 0], "the first batch of an answer is whole"
    assert sizes(1 << 30, 100) == [1_500, 100, 100]
    assert sizes(1 << 30, 1 << 20, large=True) == [50_000, 0, 0, 0]


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_append_time_in_the_answer_the_records_and_by_time(client: Client, compression: str) -> None:
    topic = f"append-time-{compression}"
    client.create(topic, message_timestamp_type="LogAppendTime", message_timestamp_difference_max_ms="1")
    before_ms = time.time_ns() // 1_000_000
    times = []
    for _ in range(2):
        # Whatever the producer says, and however wrong its clock is.
        ((row,),) = [
            row.partitions
            for row in client.produce(topic, batch(b"a", b"b", timestamp_ms=5, compression=compression)).responses
        ]
        assert row.error_code == 0
        times.append(row.log_append_time_ms)
    assert before_ms <= times[0] <= times[1] <= time.time_ns() // 1_000_000
    ((fetched,),) = [each.partition_responses for each in client.fetch(topic).responses]
    stored = _core.read_batches(fetched.record_set or b"")
    assert [(one.is_log_append_time, one.max_timestamp_ms) for one in stored] == [(True, at) for at in times]
    read = [record.timestamp_ms for record in _core.RecordReader(fetched.record_set or b"")]
    assert read == [times[0], times[0], times[1], times[1]]
    for at, offset in ((6, 0), (times[0], 0), (times[1] + 1, -1)):
        assert list_offset(client, topic, at).offset == offset
    if times[1] > times[0]:
        assert (list_offset(client, topic, times[0] + 1).offset, list_offset(client, topic, times[1]).offset) == (2, 2)


def test_librdkafka_sees_append_time(client: Client, shared_broker: Broker) -> None:
    client.create("append-time", message_timestamp_type="LogAppendTime")
    seen: list[tuple[int, int]] = []
    began_ms = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap})
    producer.produce("append-time", b"v", timestamp=5, callback=lambda _, message: seen.append(message.timestamp()))
    producer.flush(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": shared_broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition("append-time", 0, 0)])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    assert seen == [message.timestamp()]
    kind, at_ms = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert began_ms <= at_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_times_too_far_from_now_are_refused_record_by_record(client: Client, compression: str) -> None:
    topic = f"difference-{compression}"
    client.create(topic, message_timestamp_difference_max_ms="3600000")
    now_ms = time.time_ns() // 1_000_000
    builder = _core.BatchBuilder(compression=compression)
    for difference_ms in (0, -7_200_000, 1_800_000, 7_200_000):
        builder.append(now_ms + difference_ms, None, b"v")
    ((row,),) = [row.partitions for row in client.produce(topic, builder.finish()).responses]
    assert row.error_code == InvalidTimestamp.code
    assert [error.batch_index for error in row.record_errors] == [1, 3]
    assert values(client.fetch(topic)) == []
    assert produced(client, topic, batch(b"v", timestamp_ms=now_ms - 1_800_000, compression=compression)) == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a" * 250, "a,b", "a:b"])
def test_names_that_no_topic_can_have(client: Client, name: str) -> None:
    assert created(client, name) == [InvalidTopic.code]


def test_the_longest_name(client: Client) -> None:
    assert created(client, "a" * 249) == [0]


def test_names_that_would_be_one_in_metrics_collide(client: Client) -> None:
    assert created(client, "one.two_three") == [0]
    for name in ("one_two.three", "one.two.three", "one_two_three"):
        assert created(client, name) == [InvalidTopic.code]
    assert created(client, "one-two-three") == [0]


def created(client: Client, *names: str) -> list[int]:
    rows = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=rows, timeout_ms=60_000), 5)
    return [row.error_code for row in answer.topics]


def test_topics_are_not_deleted_where_that_is_forbidden(client: Client, shared_broker: Broker) -> None:
    client.create("stays")
    for version, error in ((1, InvalidRequest), (3, TopicDeletionDisabled)):
        answer = client.call(DELETE_TOPICS, DeleteTopicsRequest(topic_names=["stays"], timeout_ms=60_000), version)
        assert [row.error_code for row in answer.responses] == [error.code]
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    deleted = admin.delete_topics(["stays"])["stays"]
    with pytest.raises(KafkaException, match="TOPIC_DELETION_DISABLED"):
        deleted.result(PATIENCE_S)
    assert produced(client, "stays", batch(b"v")) == 0
