"""Who speaks: the client at the other end of a connection, as far as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kafka import ANONYMOUS

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.config import BrokerConfig


class Session:
    """The client that sent a request. Nobody authenticates here, so the listener is all that tells brokers from
    clients, where there are several.
    """

    __slots__ = ("_config", "_request")

    #: By which name rights and quotas know the client.
    principal = ANONYMOUS

    def __init__(self, request: Request, config: BrokerConfig) -> None:
        self._request = request
        self._config = config

    @property
    def listener(self) -> str:
        """The name of the listener that the client came to."""
        return self._request.listener

    @property
    def address(self) -> tuple[str, int]:
        """Where the client is."""
        return self._request.peer_address

    @property
    def local_address(self) -> tuple[str, int]:
        """The address of this broker that the client reached."""
        return self._request.local_address

    @property
    def may_be_broker(self) -> bool:
        """True if the client came to a listener where brokers are."""
        return self.listener in self._config.listeners_between_brokers
