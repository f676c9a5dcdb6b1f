"""Produce and Fetch on a real broker, said byte by byte."""

import threading
import time

import pytest

from ottla import _core
from ottla.client.errors import ConnectionLost
from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    MessageTooLarge,
    NotEnoughReplicas,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.waiting import PATIENCE_S, eventually

#: Longer than a client waits for its answer.
FOR_EVER_MS = 600_000


@pytest.mark.parametrize("version", range(3, 9))
@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_is_fetched(client: Client, version: int, acks: int) -> None:
    topic = f"versions-{version}-{acks}"
    client.create(topic)
    for offset, value in enumerate((b"a", b"b", b"c")):
        ((row,),) = [t.partitions for t in client.produce(topic, batch(value), acks=acks, version=version).responses]
        assert (row.error_code, row.base_offset) == (0, offset)
    for fetch_version in range(4, 13):
        assert values(client.fetch(topic, version=fetch_version)) == [b"a", b"b", b"c"]


def test_a_fetch_from_the_middle_of_a_batch_gets_the_whole_batch(client: Client) -> None:
    client.create("middle")
    client.produce("middle", batch(b"a", b"b", b"c"))
    assert values(client.fetch("middle", 1)) == [b"a", b"b", b"c"]
    assert values(client.fetch("middle", 3)) == []


def test_the_first_batch_is_sent_even_if_it_is_larger_than_every_limit(client: Client) -> None:
    client.create("large")
    client.produce("large", batch(b"x" * 5000))
    assert values(client.fetch("large", max_bytes=100)) == [b"x" * 5000]


def test_offsets_outside_the_log(client: Client) -> None:
    client.create("range")
    client.produce("range", batch(b"a"))
    for offset in (-5, 2):
        assert client.fetch("range", offset).responses[0].partition_responses[0].error_code == OffsetOutOfRange.code


def test_a_fetch_waits_for_min_bytes_and_is_woken_by_a_produce(client: Client, shared_broker: Broker) -> None:
    client.create("poll")
    answers: list[list[bytes | None]] = []

    def consume() -> None:
        with connect(shared_broker) as other:
            answers.append(values(other.fetch("poll", max_wait_ms=FOR_EVER_MS, min_bytes=1)))

    consumer = threading.Thread(target=consume)
    consumer.start()
    client.produce("poll", batch(b"woken"))
    consumer.join(PATIENCE_S)
    assert answers == [[b"woken"]]


def test_a_fetch_that_finds_too_little_answers_at_its_deadline(client: Client) -> None:
    client.create("deadline")
    client.produce("deadline", batch(b"a"))
    begin = time.monotonic()
    assert values(client.fetch("deadline", max_wait_ms=300, min_bytes=100_000)) == [b"a"]
    assert time.monotonic() - begin > 0.25


def test_unknown_partitions_and_stale_epochs(client: Client) -> None:
    client.create("epochs")

    def code(**options: int) -> int:
        topic = "epochs" if "partition" not in options else "nobody-made-this"
        return client.fetch(topic, **options).responses[0].partition_responses[0].error_code

    assert code(partition=0) == UnknownTopicOrPartition.code
    assert code(current_leader_epoch=0) == 0
    assert code(current_leader_epoch=7) == UnknownLeaderEpoch.code
    assert FencedLeaderEpoch.code not in (code(), code(current_leader_epoch=0))
    assert client.produce("epochs", batch(b"a"), partition=9).responses[0].partitions[0].error_code == 3


def test_refused_produces_change_nothing(client: Client) -> None:
    client.create("refused", max_message_bytes="1000")

    def code(records: bytes | None, **options: int) -> int:
        return client.produce("refused", records, **options).responses[0].partitions[0].error_code

    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    assert code(bytes(damaged)) == CorruptMessage.code
    assert code(batch(b"x" * 2000)) == MessageTooLarge.code
    assert code(batch(b"a"), acks=5) == InvalidRequiredAcks.code
    assert code(None) != 0
    assert code(b"") != 0
    assert values(client.fetch("refused")) == []


def test_acks_all_needs_min_insync_replicas(client: Client) -> None:
    client.create("insync", min_insync_replicas="2")
    assert client.produce("insync", batch(b"a")).responses[0].partitions[0].error_code == NotEnoughReplicas.code
    assert client.produce("insync", batch(b"a"), acks=1).responses[0].partitions[0].error_code == 0


def test_acks_0_is_never_answered_and_an_error_closes_the_connection(client: Client, shared_broker: Broker) -> None:
    client.create("silent")
    with connect(shared_broker) as silent:
        silent.produce_silently("silent", batch(b"a"))
        assert values(silent.fetch("silent")) == [b"a"]
        silent.produce_silently("nobody-made-this", batch(b"a"))
        with pytest.raises(ConnectionLost):
            silent.fetch("silent")


def test_large_batches_keep_their_order(client: Client) -> None:
    client.create("order", max_message_bytes="4000000")
    for index in range(8):
        size = 2_000_000 if index % 2 else 10
        client.produce("order", batch(bytes([index]) * size))
    got = [client.fetch("order", offset, max_bytes=4_000_000) for offset in range(8)]
    assert [(values(answer)[0] or b"")[:1] for answer in got] == [bytes([index]) for index in range(8)]


def test_a_stopping_broker_answers_parked_fetches_at_once(brokers: Brokers) -> None:
    broker = brokers()
    with connect(broker) as client, connect(broker) as parked:
        client.create("parked")
        client.produce("parked", batch(b"a"))
        rows = [FetchPartition(fetch_offset=0, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic="parked", partitions=rows)]
        parked.send(FETCH, FetchRequest(replica_id=-1, max_wait_ms=FOR_EVER_MS, min_bytes=1_000_000, topics=topics), 11)
        # Sent before this, so read by the broker before this is answered.
        assert values(client.fetch("parked")) == [b"a"]
        broker.stop()
        # With what there is, or with nothing if it waits in the hub, where another thread may have got it.
        assert values(parked.receive()) in ([b"a"], [])


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_compacted_topic_names_each_record_without_key(client: Client, compression: str) -> None:
    """KIP-467: the producer learns which records are at fault; none of the batch is stored."""
    topic = f"keyless-{compression}"
    client.create(topic, cleanup_policy="compact")
    builder = _core.BatchBuilder(compression=compression)
    for key in (b"a", None, b"", None):
        builder.append(1, key, b"value")
    records = builder.finish()
    ((row,),) = [topic.partitions for topic in client.produce(topic, records).responses]
    assert (row.error_code, row.base_offset) == (InvalidRecord.code, -1)
    assert [error.batch_index for error in row.record_errors] == [1, 3]
    assert "without key" in (row.record_errors[0].batch_index_error_message or "")
    assert (row.error_message or "").startswith("One or more records have been rejected, the first (1) because")
    ((row,),) = [topic.partitions for topic in client.produce(topic, records, version=7).responses]
    assert (row.error_code, row.record_errors) == (InvalidRecord.code, [])
    assert values(client.fetch(topic)) == []


def test_whether_a_topic_is_compacted_may_change(client: Client) -> None:
    client.create("switched")

    def switch(policy: str) -> None:
        client.alter_topic("switched", {"cleanup.policy": policy})

    def produced(wanted: int) -> bool:
        """Brokers learn of the change a moment after the answer."""

        def holds() -> bool:
            return client.produce("switched", batch(b"no key")).responses[0].partitions[0].error_code == wanted

        return eventually(f"the answer {wanted}", holds)

    assert produced(0)
    switch("compact")
    assert produced(InvalidRecord.code)
    switch("delete")
    assert produced(0)
