"""The proxy in front of ZooKeeper, when it is slow."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.coordination.proxy import LossyProxy
from tests.support.waiting import PATIENCE_S

DELAY_S = 0.2


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    """In front of a server that answers one connection with what it says, and ends it after a full stop."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)
                if data.endswith(b"."):
                    return

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    with listener, LossyProxy(listener.getsockname()) as made:
        yield made
    thread.join(PATIENCE_S)


def test_what_is_said_arrives_late_whole_and_in_order(proxy: LossyProxy) -> None:
    proxy.delay_ms = DELAY_S * 1000
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S) as client:
        start = time.monotonic()
        for number in range(10):
            client.sendall(b"%d" % number)
        said = b""
        while len(said) < 10:
            said += client.recv(100)
        assert time.monotonic() - start >= 2 * DELAY_S
        assert said == b"0123456789"
        proxy.delay_ms = 0
        client.sendall(b"soon")
        assert client.recv(100) == b"soon"


def test_the_end_is_late_too(proxy: LossyProxy) -> None:
    """Nothing that was said before the end of a connection is lost with it."""
    proxy.delay_ms = DELAY_S * 1000
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S) as client:
        client.sendall(b"said.")
        start = time.monotonic()
        assert client.recv(100) == b"said."
        assert client.recv(100) == b""
        assert time.monotonic() - start >= 2 * DELAY_S
