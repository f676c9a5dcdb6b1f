"""Opens connections to other brokers."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.connection import Connection
from ottla.peers.versions import Needed, lacking


class Dialer:
    """Opens connections to the inter-broker listeners of others.

    `client_id` is the name by which the others know the connection, `timeout_ms` what opening it and each answer may
    take. Versions are not negotiated: `inter.broker.protocol.version` decides them, as in Kafka.
    """

    def __init__(self, client_id: str, timeout_ms: int) -> None:
        self._client_id = client_id
        self.timeout_ms = timeout_ms

    async def open(self, host: str, port: int) -> Connection:
        """Connects. Raises OSError if nobody answers there in time."""
        return await Connection.connect(host, port, self._client_id, timeout_ms=self.timeout_ms, negotiate=False)

    async def lacking(self, host: str, port: int, needed: Iterable[Needed]) -> str | None:
        """The requests that the broker there lacks of those that are needed, in words; None if it has all, or does not
        say.
        """
        return await lacking(host, port, self._client_id, needed, self.timeout_ms)
