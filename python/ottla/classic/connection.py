"""A blocking connection that is opened when it is first needed, and opened again after it broke."""

from __future__ import annotations

import threading
from typing import Any

from ottla.client.blocking import BlockingConnection
from ottla.client.errors import ConnectionLost
from ottla.wire.schema import Api, Request, Response


class LazyConnection:
    """For many threads: a call has the connection for itself. A call whose connection broke raises; the next call
    connects again.
    """

    def __init__(self, host: str, port: int, client_id: str, timeout_ms: float) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._connection: BlockingConnection | None = None
        self._closed = False

    def call(
        self,
        api: Api[Request, Response],
        message: Request,
        version: int | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Response:
        """Sends a request and gives its answer. Raises OSError (TimeoutError, ConnectionLost), RemoteProtocolError."""
        with self._lock:
            return self._open().call(api, message, version, timeout_ms=timeout_ms)

    def post(self, api: Api[Request, Any], message: Request) -> None:
        """Sends a request that a broker never answers."""
        with self._lock:
            self._open().post(api, message)

    def versions(self, api: Api[Any, Any]) -> tuple[int, int]:
        """The lowest and highest version of an API that the broker has; (-1, -1) if it does not have it."""
        with self._lock:
            return (self._open().protocol.versions or {}).get(api.key, (-1, -1))

    def close(self) -> None:
        """May be called more than once; calls after it raise ConnectionLost."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    def _open(self) -> BlockingConnection:
        if self._closed:
            raise ConnectionLost(f"the connection to {self.host}:{self.port} was closed here")
        if self._connection is None or self._connection.closed:
            self._connection = BlockingConnection.connect(
                self.host, self.port, self.client_id or None, timeout_ms=self.timeout_ms
            )
        return self._connection
