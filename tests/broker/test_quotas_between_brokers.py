"""Brokers have no quotas among themselves: the listener tells who is one, not what a request says of itself."""

import time
from collections.abc import Iterator

import pytest

from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from ottla.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkersRequest
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import free_port
from tests.support.client import Client, batch
from tests.support.waiting import eventually

TRIES = 100
REPLICA, CONSUMER = 666, -1
#: A connection that is muted is so for longer: a window of the quota is a second.
MUTED_S = 0.5
BIG = batch(b"x" * 30_000)


@pytest.fixture(scope="module")
def inside() -> int:
    """The port of the listener that brokers use."""
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, inside: int) -> Iterator[Broker]:
    outside = free_port()
    settings = {
        "listeners": f"OUTSIDE://127.0.0.1:{outside},INSIDE://127.0.0.1:{inside}",
        "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Brokers(tmp_path_factory.mktemp("between")) as brokers:
        yield brokers(port=outside, settings=settings)


@pytest.fixture
def admin(broker: Broker) -> Iterator[Client]:
    with Client.connect("127.0.0.1", broker.port, "admin") as client:
        yield client


def limit(admin: Client, key: str, value: float | None) -> None:
    """A quota of the client "limited". The broker hears of it through the tree, soon."""
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="limited")], ops=[op])
    (row,) = admin.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry])).entries
    assert row.error_code == 0


def fetch(port: int, replica_id: int) -> FetchResponse:
    """On a connection of its own, which is not muted for what an earlier one did."""
    rows = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(replica_id=replica_id, max_wait_ms=0, topics=[FetchTopic(topic="read", partitions=rows)])
    with Client.connect("127.0.0.1", port, "limited") as client:
        return client.call(FETCH, request, 11)


def is_throttled(port: int, replica_id: int) -> bool:
    """In one of many fetches, each of three times what the quota allows in a second."""
    return any(fetch(port, replica_id).throttle_time_ms for _ in range(TRIES))


def test_a_fetch_that_says_to_be_a_replicas_is_throttled_where_clients_are(
    broker: Broker, inside: int, admin: Client
) -> None:
    admin.create("read")
    admin.produce("read", BIG)
    limit(admin, "consumer_byte_rate", 10_000.0)
    assert is_throttled(broker.port, CONSUMER)
    assert is_throttled(broker.port, REPLICA)
    assert is_throttled(inside, CONSUMER)
    assert not is_throttled(inside, REPLICA)
    limit(admin, "consumer_byte_rate", None)


def mute_s(port: int) -> float:
    """For how long a connection is not heard after a request of brokers. (Its answer has no field for that.)"""
    with Client.connect("127.0.0.1", port, "limited") as client:
        client.call(WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[]), 1)
        begin = time.monotonic()
        client.call(API_VERSIONS, ApiVersionsRequest(), 0)
        return time.monotonic() - begin


def test_the_time_of_brokers_requests_is_limited_where_clients_are(broker: Broker, inside: int, admin: Client) -> None:
    limit(admin, "request_percentage", 0.0001)

    def asks_in_vain() -> int:
        with Client.connect("127.0.0.1", broker.port, "limited") as client:
            return client.call(METADATA, MetadataRequest(topics=[]), 9).throttle_time_ms

    eventually("the quota is heard of", asks_in_vain)
    assert mute_s(broker.port) > MUTED_S
    assert mute_s(inside) < MUTED_S
    limit(admin, "request_percentage", None)
