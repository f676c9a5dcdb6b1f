"""DeleteRecords on a real broker: what may be deleted, what stays deleted, and what the answer waits for."""

import pytest

from ottla.errors import InvalidTopic, OffsetOutOfRange, PolicyViolation, UnknownTopicOrPartition
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.peers.ottla import Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.operations import EARLIEST, delete


def earliest(client: Client, topic: str) -> int:
    rows = [ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=rows)])
    ((row,),) = [topic.partitions for topic in client.call(LIST_OFFSETS, request, 5).topics]
    assert row.error_code == 0
    return int(row.offset)


def produce(client: Client, topic: str, count: int) -> None:
    for number in range(count):
        client.produce(topic, batch(b"%d" % number))


@pytest.mark.parametrize("version", range(3))
def test_what_is_deleted_is_not_read_again(client: Client, version: int) -> None:
    topic = f"deleted-{version}"
    client.create(topic)
    produce(client, topic, 5)
    assert delete(client, topic, 3, version=version) == (0, 3)
    assert earliest(client, topic) == 3
    assert client.fetch(topic, 2).responses[0].partition_responses[0].error_code == OffsetOutOfRange.code
    assert values(client.fetch(topic, 3)) == [b"3", b"4"]
    assert client.fetch(topic, 3).responses[0].partition_responses[0].log_start_offset == 3
    # To where it is already, or before: nothing happens, and the answer says where the log starts.
    assert delete(client, topic, 1, version=version) == (0, 3)
    # -1: everything that consumers may see.
    assert delete(client, topic, -1, version=version) == (0, 5)
    assert earliest(client, topic) == 5
    produce(client, topic, 1)
    assert values(client.fetch(topic, 5)) == [b"0"]


def test_what_cannot_be_deleted(client: Client) -> None:
    client.create("kept")
    client.create("compacted", cleanup_policy="compact")
    client.create("both", cleanup_policy="compact,delete")
    produce(client, "kept", 2)
    assert delete(client, "kept", 3) == (OffsetOutOfRange.code, -1)
    assert delete(client, "kept", -7) == (OffsetOutOfRange.code, -1)
    assert delete(client, "kept", 0, partition=9) == (UnknownTopicOrPartition.code, -1)
    assert delete(client, "nobody-made-this", 0) == (UnknownTopicOrPartition.code, -1)
    assert delete(client, "compacted", 0) == (PolicyViolation.code, -1)
    assert delete(client, "both", 0) == (0, 0)
    assert earliest(client, "kept") == 0


def test_internal_topics_keep_their_records(client: Client) -> None:
    client.create("__transaction_state")
    assert delete(client, "__transaction_state", 0) == (InvalidTopic.code, -1)


def test_records_of_several_partitions_fail_or_go_one_by_one(client: Client) -> None:
    client.create("several", partitions=2)
    client.produce("several", batch(b"a"), partition=1)
    rows = [DeleteRecordsPartition(partition_index=index, offset=1) for index in range(3)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="several", partitions=rows)], timeout_ms=60_000)
    answer = client.call(DELETE_RECORDS, request, 2)
    assert [(row.error_code, row.low_watermark) for row in answer.topics[0].partitions] == [
        (OffsetOutOfRange.code, -1),
        (0, 1),
        (UnknownTopicOrPartition.code, -1),
    ]


def test_deleted_records_stay_deleted_when_the_broker_is_killed_after_the_answer(brokers: Brokers) -> None:
    # No checkpoint comes by itself in the life of this test.
    settings = {"log.retention.ms": -1, "log.flush.start.offset.checkpoint.interval.ms": 3_600_000}
    broker = brokers(settings=settings)
    with connect(broker) as client:
        client.create("killed")
        produce(client, "killed", 5)
        assert delete(client, "killed", 4) == (0, 4)
    broker.kill()
    broker = brokers.restart(broker, settings=settings)
    with connect(broker) as client:
        assert earliest(client, "killed") == 4
        assert values(client.fetch("killed", 4)) == [b"4"]
