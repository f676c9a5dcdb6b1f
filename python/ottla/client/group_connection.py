"""A member's own connection to the coordinator of its group. A JoinGroup may stay unanswered for minutes, and a broker
takes the requests of a connection one after the other: on a shared one nothing could be fetched meanwhile.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ottla.client.cluster import Address
from ottla.client.connection import Connection
from ottla.client.coordinators import find_coordinator, while_coordinator
from ottla.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    LocalProtocolError,
    NotCoordinator,
    RemoteProtocolError,
    UnsupportedVersion,
)
from ottla.wire.k01_fetch import BATCHES_SINCE, FETCH

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.wire.schema import Api, Request, Response


def refuse_older(connection: Connection) -> None:
    """Raises UnsupportedVersion: the broker is older than Kafka 0.11, whose records this client does not read."""
    _, highest = (connection.protocol.versions or {}).get(FETCH.key, (0, 0))
    if highest < BATCHES_SINCE:
        raise UnsupportedVersion(
            f"the broker at {connection.host}:{connection.port} is older than Kafka 0.11, the oldest that is served"
        )


class GroupConnection:
    """`call` asks the coordinator, which is found when it is needed."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self._connection: Connection | None = None
        self._address = Address("", 0)
        self._connecting = trio.Lock()
        self._is_over = False

    async def version(self, api: Api[Any, Any]) -> int:
        """The version of an API in which the coordinator is asked. Errors as `call`."""
        connection = await self._open()
        try:
            return connection.protocol.version(api)
        except LocalProtocolError as problem:
            raise UnsupportedVersion(str(problem)) from None

    async def call(self, api: Api[Request, Response], message: Request, *, timeout_ms: float) -> Response:
        """One attempt. What the answer says is the caller's to look at; see `failed`.

        Raises:
            CoordinatorNotAvailable: it cannot be found or reached, or did not answer in time. NotCoordinator: while it
            did not answer, another took over.
            UnsupportedVersion: the broker is too old for what is asked. KafkaError: what else it says.
        """
        connection = await self._open()
        ask = partial(connection.call, api, message, timeout_ms=timeout_ms)
        try:
            return await while_coordinator(self.cluster, self.group, self._address, ask)
        except LocalProtocolError as problem:
            raise UnsupportedVersion(f"group '{self.group}': {problem}") from None
        except NotCoordinator:
            await self.forget()
            raise
        except (OSError, RemoteProtocolError) as problem:
            await self.forget()
            raise CoordinatorNotAvailable(f"the coordinator of group '{self.group}': {problem}") from problem

    async def failed(self, problem: KafkaError) -> None:
        """Takes note of an error in an answer: a coordinator that moved is looked for again."""
        if isinstance(problem, NotCoordinator | CoordinatorNotAvailable):
            await self.forget()

    async def forget(self) -> None:
        """Closes the connection; the coordinator is looked for when it is next needed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def aclose(self) -> None:
        """Closes the connection for good."""
        self._is_over = True
        await self.forget()

    async def _open(self) -> Connection:
        async with self._connecting:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            try:
                # An old one does not know what it is asked.
                refuse_older(await self.cluster.any_connection())
                _, address = await find_coordinator(self.cluster, self.group)
                found = await while_coordinator(self.cluster, self.group, address, partial(self._connect, address))
            except (OSError, RemoteProtocolError) as problem:
                raise CoordinatorNotAvailable(f"the coordinator of group '{self.group}': {problem}") from problem
            try:
                refuse_older(found)
            except UnsupportedVersion:
                with suppress(OSError):
                    await found.aclose()
                raise
            if self._is_over:
                # Nobody would close it any more.
                await found.aclose()
                raise CoordinatorNotAvailable(f"the connection for group '{self.group}' was closed here")
            self._connection, self._address = found, address
            return found

    async def _connect(self, address: Address) -> Connection:
        return await Connection.connect(
            *address, self.cluster.client_id, timeout_ms=self.cluster.timeout_ms, security=self.cluster.security
        )
