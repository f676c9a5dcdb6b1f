"""The same connection over a plain blocking socket: for Spark's tasks, threads and small tools, where there is no
event loop.

`send` and `receive` are apart, so that a reader can ask for the next fetch before it works on the last one.
"""

import socket
import time
from types import TracebackType
from typing import Any, Self

from ottla.client.errors import ConnectionLost
from ottla.client.frames import FrameReader
from ottla.client.protocol import Protocol
from ottla.errors import RemoteProtocolError
from ottla.wire.k18_api_versions import API_VERSIONS
from ottla.wire.schema import Api, Request, Response

TIMEOUT_MS = 30_000
# A fetch of megabytes arrives faster when the kernel may hold more of it while the reader decodes.
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024


class BlockingConnection:
    """For one thread at a time. After any error of these methods it is closed; make a new one."""

    def __init__(
        self, endpoint: socket.socket, client_id: str | None = "ottla", *, timeout_ms: float = TIMEOUT_MS
    ) -> None:
        self.protocol = Protocol(client_id)
        self.timeout_ms = timeout_ms
        self._socket = endpoint
        self._frames = FrameReader()
        self._answers: list[Any] = []
        self._closed = False

    @classmethod
    def connect(cls, host: str, port: int, client_id: str | None = "ottla", *, timeout_ms: float = TIMEOUT_MS) -> Self:
        """Connects and negotiates versions.

        Raises:
            OSError: nothing listens there, or not within `timeout_ms` (TimeoutError).
            ConnectionLost: it closed the connection. RemoteProtocolError: it does not speak Kafka's protocol.
        """
        endpoint = socket.create_connection((host, port), timeout_ms / 1000)
        try:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            connection = cls(endpoint, client_id, timeout_ms=timeout_ms)
            version: int | None = API_VERSIONS.versions[-1]
            while version is not None:
                answer = connection.call(API_VERSIONS, connection.protocol.negotiation_request(), version)
                version = connection.protocol.negotiated(version, answer)
        except BaseException:
            endpoint.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        """Whether it was closed here or found closed by the other side."""
        return self._closed

    def call(
        self,
        api: Api[Request, Response],
        message: Request,
        version: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Response:
        """Sends a request and gives its answer; only while no earlier `send` waits for its `receive`."""
        assert not self.protocol.in_flight, "receive() what was sent before"
        self.send(api, message, version)
        return self.receive(timeout_ms=timeout_ms)  # type: ignore[no-any-return]

    def send(self, api: Api[Request, Any], message: Request, version: int | None = None) -> None:
        """Sends a request; `receive` gives the answers in the order of sending."""
        if self._closed:
            raise ConnectionLost("the connection was closed here")
        frame = self.protocol.encode(api, message, version)
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            self._socket.sendall(frame)
        except TimeoutError:
            self.close()
            raise
        except OSError as problem:
            self.close()
            raise ConnectionLost(str(problem)) from problem

    def receive(self, *, timeout_ms: float | None = None) -> Any:
        """The next answer.

        Raises:
            TimeoutError: not within `timeout_ms` (the connection's, unless given).
            ConnectionLost: it ended first.
        """
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        try:
            while not self._answers:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"no answer within {limit_ms / 1000:g} s")
                self._socket.settimeout(left)
                count = self._socket.recv_into(self._frames.buffer())
                if not count:
                    raise ConnectionLost("the broker closed the connection")
                self._frames.received(count)
                self._answers.extend(self.protocol.decode(frame)[1] for frame in self._frames.frames())
        except (TimeoutError, ConnectionLost, RemoteProtocolError):
            self.close()
            raise
        except OSError as problem:
            self.close()
            raise ConnectionLost(str(problem)) from problem
        return self._answers.pop(0)

    def close(self) -> None:
        """May be called more than once."""
        self._closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
