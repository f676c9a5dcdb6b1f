"""Brokers have no quotas among themselves: the listener tells who is one, not what a request says of itself."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire.headers import request_frame
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
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
from tests.peers.ports import free_port
from tests.peers.processes import is_readable
from tests.support.client import Client, batch
from tests.support.hostile import connect
from tests.support.waiting import PATIENCE_S, eventually

TRIES = 100
REPLICA, CONSUMER = 666, -1
#: A connection that is muted is so for as long as this, as a rule.
WINDOW_S = 120
#: The smallest quota that there can be, in percents of a processor's time: one request takes more of ten windows.
LEAST = 1e-6
BIG = batch(b"x" * 30_000)


def listeners(outside: int, inside: int) -> dict[str, str]:
    """The settings of a broker that has a listener for clients and one for brokers."""
    return {
        "listeners": f"OUTSIDE://127.0.0.1:{outside},INSIDE://127.0.0.1:{inside}",
        "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }


@pytest.fixture(scope="module")
def inside() -> int:
    """The port of the listener that brokers use."""
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, inside: int) -> Iterator[Broker]:
    outside = free_port()
    with Brokers(tmp_path_factory.mktemp("between")) as brokers:
        yield brokers(port=outside, settings=listeners(outside, inside))


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


def is_muted(port: int, admin: Client) -> bool:
    """True if a connection is not heard after a request of brokers, whose answer has no field for that: another client
    gets many answers and this one none, although it asked before.
    """
    markers = WRITE_TXN_MARKERS.encode_request(1, WriteTxnMarkersRequest(markers=[]))
    versions = API_VERSIONS.encode_request(0, ApiVersionsRequest())
    # No client of ours, which asks for versions first, and would be muted for that.
    with contextlib.closing(connect(port)) as one:
        one.settimeout(PATIENCE_S)
        one.sendall(request_frame(WRITE_TXN_MARKERS.key, 1, 1, "limited", markers))
        (length,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
        one.recv(length, socket.MSG_WAITALL)
        one.sendall(request_frame(API_VERSIONS.key, 0, 2, "limited", versions))
        for _ in range(TRIES):
            admin.call(API_VERSIONS, ApiVersionsRequest(), 0)
        return not is_readable(one)


def test_the_time_of_brokers_requests_is_limited_where_clients_are(tmp_path: Path) -> None:
    outside, inside = free_port(), free_port()
    settings = listeners(outside, inside) | {"quota.window.size.seconds": str(WINDOW_S)}
    with Brokers(tmp_path) as brokers:
        broker = brokers(port=outside, settings=settings)
        with Client.connect("127.0.0.1", broker.port, "admin") as admin:
            limit(admin, "request_percentage", LEAST)
            # The broker hears of the quota a moment later.
            eventually("a connection is muted", lambda: is_muted(broker.port, admin))
            eventually("a connection of the other listener is heard", lambda: not is_muted(inside, admin))
