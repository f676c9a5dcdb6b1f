"""The connections from the controller to brokers: for each an ordered queue, and one request under way at a time.

The order is what makes the requests mean something (a replica must not be stopped before it was told to follow), so a
request is repeated until it was answered or the broker is gone from the tree. What a repeated request says twice,
epochs make harmless. The controller's own broker is one of them, reached over its listener like any other.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from ottla.controller.model import Broker
from ottla.controller.requests import ControlRequest
from ottla.errors import ProtocolError

logger = logging.getLogger(__name__)

BACKOFF_MS = 100
"""Between attempts, as Kafka's RequestSendThread."""
TIMEOUT_MS = 30_000
"""`controller.socket.timeout.ms`."""

OnResponse = Callable[[ControlRequest, Any], None]


class ControlConnection(Protocol):
    """What is needed of a connection to a broker; `ottla.client.Connection` has it."""

    async def call(self, api: Any, message: Any, version: int | None = None, *, timeout_ms: float = ...) -> Any: ...

    async def aclose(self) -> None: ...


Connect = Callable[[str, int], Awaitable[ControlConnection]]


def connector(controller_id: int, timeout_ms: int = TIMEOUT_MS) -> Connect:
    """Connections that name themselves as Kafka's controllers do: by the broker's id."""

    async def connect(host: str, port: int) -> ControlConnection:
        from ottla.client.connection import Connection

        return await Connection.connect(host, port, str(controller_id), timeout_ms=timeout_ms, negotiate=False)

    return connect


class Channel:
    """What one broker is told, for as long as it has this epoch."""

    def __init__(self, broker: Broker, listener: str, connect: Connect, on_response: OnResponse) -> None:
        self.broker = broker
        self._listener = listener
        self._connect = connect
        self._on_response = on_response
        self._queue: deque[ControlRequest] = deque()
        self._filled = trio.Event()
        self._scope = trio.CancelScope()
        self._failures = 0

    def send(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._filled.set()

    def update(self, broker: Broker) -> None:
        """The same broker with other endpoints: used from the next connection on."""
        self.broker = broker

    def close(self) -> None:
        """Stop now; what is queued is dropped, since the broker it was meant for is gone."""
        self._scope.cancel()

    async def run(self) -> None:
        """Send until `close`."""
        connection: ControlConnection | None = None
        with self._scope:
            try:
                while True:
                    while not self._queue:
                        self._filled = trio.Event()
                        await self._filled.wait()
                    request = self._queue[0]
                    try:
                        if connection is None:
                            connection = await self._open()
                        response = await connection.call(
                            request.api, request.message, request.version, timeout_ms=TIMEOUT_MS
                        )
                    except (OSError, ProtocolError) as error:
                        self._log_failure(request, error)
                        if connection is not None:
                            await connection.aclose()
                            connection = None
                        await trio.sleep(BACKOFF_MS / 1000)
                        continue
                    self._queue.popleft()
                    self._failures = 0
                    self._on_response(request, response)
                    # Until the next there is they would be kept, with all partitions of the cluster perhaps.
                    del request, response
            finally:
                if connection is not None:
                    with trio.CancelScope(shield=True):
                        await connection.aclose()

    def _log_failure(self, request: ControlRequest, error: Exception) -> None:
        """A broker registers a moment before it listens, and a dead one is tried until the tree says so: not every
        attempt.
        """
        self._failures += 1
        if self._failures % 100 == 5:
            logger.warning(
                "%s to broker %d failed %d times, going on: %s",
                request.api.name,
                self.broker.id,
                self._failures,
                error,
            )

    async def _open(self) -> ControlConnection:
        endpoint = self.broker.endpoint(self._listener)
        if endpoint is None:
            raise ConnectionError(f"broker {self.broker.id} has no listener {self._listener}")
        return await self._connect(endpoint.host, endpoint.port)
