"""The requests that clients have sent, `broker.requests`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

import ottla
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        broker.create_topic("t")
        yield broker


def connect(broker: ottla.Broker, client_id: str | None = "test") -> Client:
    return Client.connect(broker.host, broker.port, client_id)


def test_requests_are_seen_as_they_were_sent(broker: ottla.Broker) -> None:
    records = batch(b"1", b"2")
    with connect(broker) as client, connect(broker, None) as other:
        client.produce("t", records)
        with broker.requests.recorded() as seen:
            client.produce("t", records)
            client.fetch("t", 1)
            other.call(METADATA, MetadataRequest(topics=[MetadataRequestTopic("t")]), 9)
        client.fetch("t", 1)
    assert [(one.api, one.version, one.client_id) for one in seen] == [
        ("Produce", 8, "test"),
        ("Fetch", 11, "test"),
        ("Metadata", 9, ""),
    ]
    produced, fetched, asked = (one.message for one in seen)
    assert produced.acks == -1
    assert [(topic.name, [row.partition_index for row in topic.partitions]) for topic in produced.topics] == [
        ("t", [0])
    ]
    # The broker writes its offset into the batch that it got; here it is as it was sent.
    assert produced.topics[0].partitions[0].records == records
    assert fetched.topics[0].partitions[0].fetch_offset == 1
    assert [topic.name for topic in asked.topics] == ["t"]
    assert [one.at for one in seen] == sorted(one.at for one in seen)


def test_what_was_seen_cannot_be_changed(broker: ottla.Broker) -> None:
    with connect(broker) as client, broker.requests.recorded() as seen:
        client.call(METADATA, MetadataRequest(topics=[MetadataRequestTopic("t")]), 9)
    message = seen[0].message
    with pytest.raises(AttributeError):
        message.topics = ()
    with pytest.raises(AttributeError):
        message.topics[0].name = "u"
    assert isinstance(message.topics, tuple)


def test_a_recording_keeps_the_last_ones(broker: ottla.Broker) -> None:
    with connect(broker) as client, broker.requests.recorded(limit=2) as seen:
        for number in range(5):
            client.call(METADATA, MetadataRequest(topics=[MetadataRequestTopic(f"t{number}")]), 9)
        assert [one.message.topics[0].name for one in seen] == ["t3", "t4"]
        assert (len(seen), seen.total) == (2, 5)
    with pytest.raises(ValueError, match="limit is 0"), broker.requests.recorded(limit=0):
        pass


def test_recordings_of_the_same_requests(broker: ottla.Broker) -> None:
    with connect(broker) as client, broker.requests.recorded() as all_of_them:
        client.call(METADATA, MetadataRequest(topics=[]), 9)
        with broker.requests.recorded() as some, connect(broker, "other") as other:
            other.produce("t", batch(b"1"))
            client.call(METADATA, MetadataRequest(topics=[]), 9)
    assert [one.api for one in all_of_them] == ["Metadata", *[one.api for one in some]]
    assert [one.api for one in some if one.api != "ApiVersions"] == ["Produce", "Metadata"]
    assert [one.client_id for one in all_of_them.of("Metadata")] == ["test", "test"]
    assert all_of_them.of("Produce", "test") == []
    assert len(all_of_them.of("Produce", "other")) == 1


def test_a_request_may_be_waited_for(broker: ottla.Broker) -> None:
    def ask() -> None:
        with connect(broker) as client:
            client.call(METADATA, MetadataRequest(topics=[]), 9)
            client.produce("t", batch(b"1"))
            client.produce("t", batch(b"2"))

    with broker.requests.recorded() as seen:
        with pytest.raises(TimeoutError, match="0 of 1 requests of Produce"):
            seen.wait("Produce", timeout=0)
        thread = threading.Thread(target=ask)
        thread.start()
        assert [one.api for one in seen.wait("Produce", 2, timeout=PATIENCE_S)] == ["Produce"] * 2
        thread.join(PATIENCE_S)
    with pytest.raises(ValueError, match="no API is called 'Prodcue'; did you mean Produce"):
        seen.of("Prodcue")
    with pytest.raises(ValueError, match="no API is called 'Prodcue'; did you mean Produce"):
        seen.wait("Prodcue")


def test_bytes_that_are_no_message_are_left_out(broker: ottla.Broker) -> None:
    with broker.requests.recorded() as seen:
        for key, version in ((METADATA.key, 9), (PRODUCE.key, 8)):
            with socket.create_connection((broker.host, broker.port)) as stream:
                stream.settimeout(PATIENCE_S)
                stream.sendall(request_frame(key, version, 0, "test", b"\xff\xff\xff"))
                assert stream.recv(1) == b""
        with connect(broker) as client:
            client.call(METADATA, MetadataRequest(topics=[]), 9)
    assert [one.api for one in seen if one.api != "ApiVersions"] == ["Metadata"]


def test_a_client_of_others_is_seen(broker: ottla.Broker) -> None:
    ck = pytest.importorskip("confluent_kafka")
    with broker.requests.recorded() as seen:
        producer = ck.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "client.id": "checkout", "linger.ms": 0, "acks": "all"}
        )
        producer.produce("t", b"1 pear")
        assert producer.flush(PATIENCE_S) == 0
    assert {one.client_id for one in seen} == {"checkout"}
    (produced,) = seen.of("Produce")
    assert produced.message.acks == -1
    assert seen.of("ApiVersions")[0].message.client_software_name.startswith("confluent-kafka")
