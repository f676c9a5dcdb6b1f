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
from ottla.peers.versions import Versions, lacking

logger = logging.getLogger(__name__)

BACKOFF_MS = 100
"""Between attempts, as Kafka's RequestSendThread."""
TIMEOUT_MS = 30_000
"""The default of `controller.socket.timeout.ms`."""

OnResponse = Callable[[ControlRequest, Any], None]


class ControlConnection(Protocol):
    """The part of a connection to a broker that a channel needs; `ottla.client.Connection` has it."""

    async def call(
        self, api: Any, message: Any, version: int | None = None, *, timeout_ms: float = ..., in_pieces: bool = ...
    ) -> Any: ...

    async def negotiate(self) -> None: ...

    async def aclose(self) -> None: ...

    @property
    def protocol(self) -> Versions: ...


Connect = Callable[[str, int], Awaitable[ControlConnection]]


class Channel:
    """The channel to one broker, by which it is told changes, for as long as it has this epoch."""

    def __init__(
        self, broker: Broker, listener: str, connect: Connect, on_response: OnResponse, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self.broker = broker
        self._listener = listener
        self._connect = connect
        self._on_response = on_response
        self._timeout_ms = timeout_ms
        self._queue: deque[ControlRequest] = deque()
        self._filled = trio.Event()
        self._emptied = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._failures = 0

    def __len__(self) -> int:
        """How many requests were not answered yet."""
        return len(self._queue)

    def send(self, request: ControlRequest) -> None:
        self._queue.append(request)
        self._filled.set()

    async def told(self) -> None:
        """Returns when the broker has answered all that it was sent, or is gone."""
        while self._queue:
            await self._emptied.park()

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
                            request.api,
                            request.message,
                            request.version,
                            timeout_ms=self._timeout_ms,
                            in_pieces=True,
                        )
                    except (OSError, ProtocolError) as error:
                        await self._log_failure(request, error)
                        if connection is not None:
                            await connection.aclose()
                            connection = None
                        await trio.sleep(BACKOFF_MS / 1000)
                        continue
                    self._queue.popleft()
                    if not self._queue:
                        self._emptied.unpark_all()
                    self._failures = 0
                    self._on_response(request, response)
                    # Until the next there is they would be kept, with all partitions of the cluster perhaps.
                    del request, response
            finally:
                self._queue.clear()
                self._emptied.unpark_all()
                if connection is not None:
                    with trio.CancelScope(shield=True):
                        await connection.aclose()

    async def _log_failure(self, request: ControlRequest, error: Exception) -> None:
        """A broker registers a moment before it listens, and a dead one is tried until the tree says so: not every
        attempt.
        """
        self._failures += 1
        if self._failures % 100 == 5:
            reason = await self._lacking(request) or error
            logger.warning(
                "%s to broker %d failed %d times, going on: %s",
                request.api.name,
                self.broker.id,
                self._failures,
                reason,
            )

    async def _lacking(self, request: ControlRequest) -> str | None:
        """Says in words which request the broker lacks, if that is why it does not answer; else None."""
        endpoint = self.broker.endpoint(self._listener)
        if endpoint is None:
            return None
        return await lacking(endpoint.host, endpoint.port, self._connect, [(request.api, request.version)])

    async def _open(self) -> ControlConnection:
        endpoint = self.broker.endpoint(self._listener)
        if endpoint is None:
            raise ConnectionError(f"broker {self.broker.id} has no listener {self._listener}")
        return await self._connect(endpoint.host, endpoint.port)
