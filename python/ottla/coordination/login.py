"""A login at ZooKeeper by user and password (SASL, DIGEST-MD5), on each connection before anybody hears of it.

kazoo says that it is connected first, and logs in then; and it ends for good when a login fails, or when the server
dies in the middle of one. Here `attach` puts the login before kazoo's word, so that nothing is sent by nobody, and a
session that was logged in once is not given up: later refusals are told and tried again, as Kafka does.

A server that says no at the first login ends the client, as with Kafka. One that only ends the connection may have
died as well: that is tried again for as long as connecting may take.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.serialization import SASL
from kazoo.protocol.states import KeeperState

from ottla.coordination.digest_md5 import Exchange, User

logger = logging.getLogger(__name__)

URI: Final = "zookeeper/zk-sasl-md5"
"""Service and host. ZooKeeper's servers have this name for DIGEST-MD5, wherever they run."""
_CONNECTED: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)


class Login:
    """A user's logins by one client."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._succeeded = False
        #: The reason for which the last login failed, in words; None after one that succeeded.
        self.refused: str | None = None
        #: Called on the connection's thread when the first login was refused: the client is over then.
        self.ended: Callable[[], None] = lambda: None

    def attach(self, client: Any) -> None:
        """Has this kazoo client log in on each of its connections."""
        heard: Callable[[Any], None] = client._session_callback

        def after_the_login(state: Any) -> None:
            if state in _CONNECTED:
                self._log_in(client._connection, client._session_timeout / 1000 / len(client.hosts))
            heard(state)

        client._session_callback = after_the_login

    def _log_in(self, connection: Any, timeout_s: float) -> None:
        """Raises AuthFailedError to end the client, ConnectionDropped and kazoo's timeout to try again. All of it takes
        no longer than the connection itself may: kazoo's client waits for that where it is stopped.
        """
        exchange = Exchange(self._user, URI)
        ends_at_s = time.monotonic() + timeout_s
        try:
            challenge = _sent(connection, b"", 1, ends_at_s)
            if not challenge or isinstance(challenge, int):
                raise ValueError("that ZooKeeper knows no users: it has no section Server in a JAAS file")
            answer = exchange.answer(challenge)
            try:
                last = _sent(connection, answer, 2, ends_at_s)
            except ConnectionDropped:
                self._tell(f"the connection ended at the login of the user {self._user.name}; is the password right?")
                raise
            if isinstance(last, int):
                raise ValueError(f"ZooKeeper does not know the user {self._user.name} with this password")
            exchange.check(last or b"")
        except ValueError as error:
            self._tell(str(error))
            if self._succeeded:
                raise ConnectionDropped(str(error)) from None
            self.ended()
            raise AuthFailedError(str(error)) from None
        self._succeeded, self.refused = True, None

    def _tell(self, reason: str) -> None:
        if reason != self.refused:
            logger.error("the login at ZooKeeper failed: %s (%s)", reason, self._user.place)
        self.refused = reason


def _sent(connection: Any, token: bytes, xid: int, ends_at_s: float) -> bytes | int | None:
    """The server's token, or the number of its error. Raises ValueError for an answer that is none."""
    connection._submit(SASL(token), max(0.0, ends_at_s - time.monotonic()), xid)
    try:
        header, answer, offset = connection._read_header(max(0.0, ends_at_s - time.monotonic()))
        received: bytes | int | None = header.err or SASL.deserialize(answer, offset)[0]
    except struct.error:
        raise ValueError("what the server sent is no answer to a login") from None
    if header.zxid > 0:
        connection.client.last_zxid = header.zxid
    return received
