"""The blocking connection over a pair of sockets: order, deadlines, and an end that is noticed."""

import socket
from collections.abc import Iterator

import pytest

from ottla.client import BlockingConnection, ConnectionLost
from ottla.errors import RemoteProtocolError
from ottla.wire.k03_metadata import METADATA
from tests.client.scripted import METADATA_REQUEST, cluster_called, response_frame


@pytest.fixture
def ends() -> Iterator[tuple[BlockingConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, BlockingConnection(ours, "test", timeout_ms=60_000) as connection:
        connection.protocol.versions = {METADATA.key: (0, 9)}
        yield connection, theirs


Ends = tuple[BlockingConnection, socket.socket]


def test_answers_come_in_the_order_of_sending(ends: Ends) -> None:
    connection, broker = ends
    for _ in range(3):
        connection.send(METADATA, METADATA_REQUEST)
    answers = [response_frame(METADATA, 9, number, cluster_called(f"{number}")) for number in range(3)]
    broker.sendall(b"".join(answers)[:-5])
    assert [connection.receive().cluster_id for _ in range(2)] == ["0", "1"]
    broker.sendall(answers[-1][-5:])
    assert connection.receive().cluster_id == "2"


def test_no_answer_in_time(ends: Ends) -> None:
    connection, _ = ends
    connection.send(METADATA, METADATA_REQUEST)
    with pytest.raises(TimeoutError, match=r"no answer from the broker within 0\.02 s"):
        connection.receive(timeout_ms=20)
    assert connection.closed
    with pytest.raises(ConnectionLost):
        connection.send(METADATA, METADATA_REQUEST)


def test_the_other_side_goes_away(ends: Ends) -> None:
    connection, broker = ends
    connection.send(METADATA, METADATA_REQUEST)
    broker.close()
    with pytest.raises(ConnectionLost):
        connection.receive()
    assert connection.closed


def test_bytes_that_are_no_answer(ends: Ends) -> None:
    connection, broker = ends
    connection.send(METADATA, METADATA_REQUEST)
    broker.sendall(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(RemoteProtocolError):
        connection.receive()
    assert connection.closed
