"""Kafka requests made by hand, byte by byte, for what no client library can be talked into sending."""

import contextlib
import socket
import struct
from collections.abc import Iterator

from tests.support.waiting import PATIENCE_S

API_VERSIONS, METADATA, INIT_PRODUCER_ID = 18, 3, 22


def string(text: str | None) -> bytes:
    """A nullable string with a two-byte length."""
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def frame(
    key: int,
    version: int,
    body: bytes = b"",
    *,
    correlation: int = 1,
    client: str | None = "raw",
    flexible: bool = False,
) -> bytes:
    """A request and its size; its header is version 1, or 2 (with an empty list of tags) if `flexible`."""
    request = struct.pack(">hhi", key, version, correlation) + string(client) + b"\0" * flexible + body
    return struct.pack(">i", len(request)) + request


METADATA_OF_NOTHING = struct.pack(">i", 0)  # version 1: no topics
INIT_PRODUCER_ID_BODY = string(None) + struct.pack(">i", 60_000)


class Connection:
    """A blocking socket to a broker; reads answers frame by frame."""

    def __init__(self, port: int, timeout_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError(f"closed after {len(data)} of {count} bytes")
            data += part
        return data

    def answer(self) -> bytes:
        """The next answer without its size: correlation id and body. EOFError: the broker closed the connection."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, *arguments: object, **options: object) -> bytes:
        self.send(frame(*arguments, **options))  # type: ignore[arg-type]
        return self.answer()

    def is_closed(self) -> bool:
        """Wait for what comes next: True if that is the end of the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def read_to_end(self) -> bytes:
        """All that still comes until the broker closes; TimeoutError if it does not."""
        data = b""
        with contextlib.suppress(ConnectionError):
            while part := self.socket.recv(65536):
                data += part
        return data

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def connection(port: int, timeout_s: float = PATIENCE_S) -> Iterator[Connection]:
    opened = Connection(port, timeout_s)
    try:
        yield opened
    finally:
        opened.close()


def new_producer_id(port: int) -> int:
    """A producer id from InitProducerId version 0."""
    with connection(port) as broker:
        answer = broker.ask(INIT_PRODUCER_ID, 0, INIT_PRODUCER_ID_BODY)
    _, _, error, producer_id, _ = struct.unpack(">iihqh", answer)
    assert error == 0, error
    assert isinstance(producer_id, int)
    return producer_id
