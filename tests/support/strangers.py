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
"""Serves a connection, which is closed after it."""

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


PORT = "is no Kafka broker: "
#: By name, with the words that tell a user: none becomes a broker by waiting.
NO_BROKERS = {
    "http": (
        says(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n<html>"),
        PORT + 'it answers in HTTP ("HTTP/1.1 400 Bad Request"). Is this the port of a web server or of a proxy?',
    ),
    "html": (says(b"<html>\n<body>"), PORT + 'it answers ("<html>"). Is the port right?'),
    "tls": (
        says(bytes.fromhex("15030300020246")),
        "speaks TLS: set security.protocol to SSL or SASL_SSL, or name the port of a listener without TLS",
    ),
    "ssh": (greets(b"SSH-2.0-x_9\r\n"), PORT + 'it answers as an SSH server does ("SSH-2.0-x_9"). Is the port right?'),
    "smtp": (greets(b"220 mail ESMTP\r\n"), PORT + 'it answers as a mail or FTP server does ("220 mail ESMTP")'),
    "redis": (says(b"-ERR unknown command\r\n"), PORT + 'it answers as Redis does ("-ERR unknown command")'),
    "amqp": (says(b"AMQP\0\0\x09\x01"), PORT + "it answers as RabbitMQ does. Is the port right?"),
    "mysql": (greets(b"\x4a\0\0\0\x0a8.0.36\0"), PORT + "it answers as MySQL does. Is the port right?"),
    "negative": (says((-5).to_bytes(4, "big", signed=True)), PORT + "a frame of -5 bytes"),
    "huge": (
        says(b"\x0f\xff\xff\xff12"),
        PORT + "a frame of 268435455 bytes; the limit is 1048576, which begins with ",
    ),
    "zero": (says(bytes(4)), PORT + "the answer to ApiVersions makes no sense: correlation_id at byte 0: 4 bytes are"),
    "wrong id": (says(frame(b"\0\0\3\xe7" + bytes(9))), PORT + "the answer to ApiVersions makes no sense: answer 999"),
    "noise": (says(frame(bytes(4) + b"\xa5" * 60)), PORT + "the answer to ApiVersions makes no sense: "),
    "in pieces": (says(b"H", b"T", b"T", b"P/1.0 200 OK\r\n"), PORT + "it answers in HTTP"),
    "no metadata": (
        offers((18, 0, 3), (0, 0, 8)),
        PORT + "it has no Metadata. Is the port right, and is there nothing",
    ),
    "controller": (
        offers((18, 0, 3), (1, 0, 12), (52, 0, 0), (55, 0, 1)),
        "is a controller (KRaft), which serves no clients. Name the port of a broker's listener",
    ),
    "future": (offers((18, 0, 3), (3, 90, 99)), "is newer: it has versions 90 to 99, this client 0 to 9"),
}

#: Addresses that a broker names and nobody can connect to, with the words that tell a user.
ADVERTISED = {
    "no name": (("", 9092), ":9092: no host is named"),
    "a name that none can be": (("a..b", 9092), "a..b:9092: no host can have this name"),
    "a long name": (("x" * 64, 9092), f"{'x' * 64}:9092: no host can have this name"),
    "an unknown name": (("nowhere.invalid", 9092), "nowhere.invalid:9092: "),
    "port 0": (("127.0.0.1", 0), "127.0.0.1:0: no port has this number"),
    # The resolver would take it for 4464.
    "a port that is none": (("127.0.0.1", 70_000), "127.0.0.1:70000: no port has this number"),
    "a negative port": (("127.0.0.1", -1), "127.0.0.1:-1: no port has this number"),
}
HINT = "; brokers name this address to clients (advertised.listeners)"
