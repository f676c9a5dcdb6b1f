"""Who speaks: the client at the other end of a connection, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker import principals
from ottla.kafka import ANONYMOUS

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.config import BrokerConfig


class Session:
    """The client that sent a request. The listener tells brokers from clients, where there are several.

    users: The names of the clients that came in by SASL, by connection.
    """

    __slots__ = ("_config", "_request", "_users")

    def __init__(self, request: Request, config: BrokerConfig, users: Mapping[int, str]) -> None:
        self._request = request
        self._config = config
        self._users = users

    @property
    def principal(self) -> str:
        """By which name rights and quotas know the client. Raises NoPrincipal."""
        user = self._users.get(self._request.connection_id)
        if user is not None:
            return user
        subject = self._request.peer_subject
        return ANONYMOUS if subject is None else principals.of_certificate(subject, self.listener, self._config)

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
