"""Requests from this broker to others: one connection to each, opened when it is needed and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from ottla.client.errors import ConnectionLost

if TYPE_CHECKING:
    from ottla.client.connection import Connection
    from ottla.peers.dialing import Dialer
    from ottla.wire.schema import Api

Address = Callable[[int], "tuple[str, int] | None"]
"""Where a broker listens for other brokers; None while it is not there."""


class Peers:
    """The other brokers, by id.

    address: Where a broker listens for others. It is asked before each connection is opened: a broker may come back
        elsewhere.
    """

    def __init__(self, address: Address, dialer: Dialer) -> None:
        self.address = address
        self._dialer = dialer
        self._connections: dict[int, tuple[tuple[str, int], Connection]] = {}

    async def call(self, broker: int, api: Api[Any, Any], message: Any, version: int) -> Any:
        """Sends a request and returns the answer. The request may have been handled twice: what is sent so must bear
        it.

        Raises OSError if the broker is out of reach, and ProtocolError if it answers something else.
        """
        address = self.address(broker)
        if address is None:
            raise ConnectionError(f"broker {broker} is not there now")
        kept = self._connections.pop(broker, None)
        if kept is not None:
            where, connection = kept
            if where == address:
                try:
                    return await self._ask(broker, address, connection, api, message, version)
                except ConnectionLost:
                    pass  # It had been idle for too long.
            else:
                await connection.aclose()
        connection = await self._dialer.open(*address)
        try:
            return await self._ask(broker, address, connection, api, message, version)
        except ConnectionLost:
            lacks = await self._dialer.lacking(*address, [(api, version)])
            if lacks is None:
                raise
        raise ConnectionLost(f"broker {broker} at {lacks}")

    async def _ask(
        self,
        broker: int,
        address: tuple[str, int],
        connection: Connection,
        api: Api[Any, Any],
        message: Any,
        version: int,
    ) -> Any:
        try:
            answer = await connection.call(api, message, version, timeout_ms=self._dialer.timeout_ms)
        except BaseException:
            with trio.CancelScope(shield=True):
                await connection.aclose()
            raise
        other = self._connections.pop(broker, None)
        if other is not None:
            await other[1].aclose()
        self._connections[broker] = (address, connection)
        return answer

    async def run(self) -> None:
        """Keeps the connections until cancelled, then closes them."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _, connection in self._connections.values():
                    await connection.aclose()
