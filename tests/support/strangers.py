"""Servers that are no brokers, or bad ones: each answers in its own way whoever connects.

They listen on 127.0.0.1 in threads of their own, so that clients under trio, blocking ones and the command line meet
the same.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ottla.wire import headers
from ottla.wire.k03_metadata import METADATA, MetadataResponse, MetadataResponseBroker
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey
from ottla.wire.schema import Api
from tests.support.waiting import PATIENCE_S

Behaviour = Callable[[socket.socket], None]
"""What it does with a connection, which is closed after it."""

LENGTH_BYTES = 4


@contextmanager
def listening(behaviour: Behaviour) -> Iterator[int]:
    """The port of a server until the block ends, which ends its connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        # Whoever is there may leave at any time.
        with suppress(OSError), connection:
            behaviour(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for each in (listener, *connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        acceptor.join(PATIENCE_S)


def says(*parts: bytes, stays: bool = True) -> Behaviour:
    """Hears a request, says this in so many pieces, and waits for the other side to leave, or leaves itself."""

    def behave(connection: socket.socket) -> None:
        request(connection)
        for part in parts:
            connection.sendall(part)
        if stays:
            wait(connection)

    return behave


def greets(text: bytes) -> Behaviour:
    """Says this before it hears anything, and waits for the other side to leave."""

    def behave(connection: socket.socket) -> None:
        connection.sendall(text)
        wait(connection)

    return behave


def offers(*apis: tuple[int, int, int], error_code: int = 0, then: Behaviour | None = None) -> Behaviour:
    """Has these APIs in versions from the second number to the third, and goes on as `then` does."""
    rows = [ApiVersionsResponseKey(*row) for row in apis]

    def behave(connection: socket.socket) -> None:
        asked = request(connection)
        answer(connection, asked, API_VERSIONS, ApiVersionsResponse(error_code=error_code, api_keys=rows))
        (then or wait)(connection)

    return behave


def names(brokers: Sequence[tuple[str, int]]) -> Behaviour:
    """Answers Metadata for ever: these are the brokers, and they have no topics. The first is the controller."""
    rows = [MetadataResponseBroker(number, host, port) for number, (host, port) in enumerate(brokers)]

    def behave(connection: socket.socket) -> None:
        while True:
            asked = request(connection)
            answer(connection, asked, METADATA, MetadataResponse(brokers=rows, cluster_id="strange", controller_id=0))

    return offers((3, 0, 9), (16, 0, 3), then=behave)


def answer(connection: socket.socket, asked: bytes, api: Api[Any, Any], message: Any) -> None:
    """Answers a request. Raises ConnectionError if it is another API's."""
    key, version = int.from_bytes(asked[:2], "big"), int.from_bytes(asked[2:4], "big")
    if key != api.key:
        raise ConnectionError("somebody else's question")
    tags = b"\0" if headers.response_header_version(key, version) else b""
    connection.sendall(frame(asked[4:8] + tags + api.encode_response(version, message)))


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def request(connection: socket.socket) -> bytes:
    """The next request without its length. Raises ConnectionError if there is none."""
    return _exactly(connection, int.from_bytes(_exactly(connection, LENGTH_BYTES), "big"))


def wait(connection: socket.socket) -> None:
    """Until the other side leaves."""
    while connection.recv(4096):
        pass


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data
