"""Opens connections to other brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from ottla.client.connection import Connection
from ottla.client.errors import ConnectionLost
from ottla.client.security import Security
from ottla.errors import KafkaError
from ottla.peers.versions import Needed, lacking


class Dialer:
    """Opens connections to the inter-broker listeners of others.

    `client_id` is the name by which the others know the connection, `timeout_ms` what opening it and each answer may
    take. `security` is asked for each connection how it is secured. Versions are not negotiated:
    `inter.broker.protocol.version` decides them, as in Kafka; but those of the requests that say who this broker is,
    where others want that.
    """

    def __init__(self, client_id: str, timeout_ms: int, security: Callable[[], Security | None] = lambda: None) -> None:
        self._client_id = client_id
        self.timeout_ms = timeout_ms
        self._security = security

    async def open(self, host: str, port: int) -> Connection:
        """Connects. Raises OSError if nobody answers there in time, or this broker is not let in."""
        security = self._security()
        try:
            return await Connection.connect(
                host,
                port,
                self._client_id,
                timeout_ms=self.timeout_ms,
                negotiate=security is not None and security.sasl,
                security=security,
            )
        except KafkaError as refused:
            raise ConnectionLost(str(refused)) from refused

    async def greet(self, stream: trio.SocketStream, host: str, port: int) -> None:
        """Begins TLS on a connection that is open and says who this broker is, as far as others want that.

        Raises KafkaError: they do not let it in. OSError, ProtocolError: they do not answer.
        """
        security = self._security()
        if security is None:
            return
        try:
            with trio.fail_after(self.timeout_ms / 1000):
                opened: trio.abc.Stream = stream
                if security.tls:
                    from ottla.client.tls import encrypted

                    opened = await encrypted(stream, host, port, security)
                if security.sasl:
                    connection = Connection(opened, self._client_id, host=host, port=port, security=security)
                    await connection.introduce()
        except trio.TooSlowError:
            raise TimeoutError(f"{host}:{port} did not answer") from None

    async def lacking(self, host: str, port: int, needed: Iterable[Needed]) -> str | None:
        """The requests that the broker there lacks of those that are needed, in words; None if it has all, or does not
        say.
        """
        return await lacking(host, port, self.open, needed)
