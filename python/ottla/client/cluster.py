"""A cluster as a client sees it: where its brokers are, who leads which partition, and one connection to each.

Metadata are asked when they are needed and kept. An answer that says they are out of date (not leader, unknown
partition, a broken connection) makes them be asked again, and the call repeated, until `timeout_ms` has passed. Only
calls that may be repeated are: a request is sent again after its connection broke, when it may have been carried out.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import trio

from ottla.client.answers import row_about
from ottla.client.connection import TIMEOUT_MS, Connection, need_trio
from ottla.client.errors import (
    BadAddress,
    ConnectionLost,
    NotABroker,
    UnknownHost,
    named_by_brokers,
    place,
    reasons,
)
from ottla.client.hedging import first_of
from ottla.client.strangers import need_metadata
from ottla.errors import (
    BrokerNotAvailable,
    KafkaError,
    LeaderNotAvailable,
    NotController,
    RemoteProtocolError,
    UnknownTopicOrPartition,
    error,
)
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.wire.k03_metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.schema import Api, Request, Response

if TYPE_CHECKING:
    from ottla.client.ongoing import Ongoing
    from ottla.client.security import Security

RETRY_MS = 50
RETRY_MS_MAX = 1000
GONE_MS = 3_000
"""A partition that brokers have not known for so long is not there. A broker that starts, or a topic that is new,
may need a moment.
"""
SILENT_MS = 1_000
"""A broker that owes an answer for so long and sends nothing may stand still."""
DEFAULT_PORT = 9092
#: The resolver knows that there is no such name, or no address of it; other failures of its may pass.
UNKNOWN_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

_SCHEME = re.compile(r"^[A-Za-z0-9._%-]*://")

T = TypeVar("T")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return place(self.host, self.port)


@dataclass(slots=True)
class Metadata:
    """What the cluster last said. Leaders are there for partitions that have one."""

    brokers: dict[int, Address] = field(default_factory=dict)
    controller_id: int = NO_LEADER
    cluster_id: str | None = None
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """The codes of topics about which the last answer says nothing else."""


def parse_bootstrap(servers: str | Iterable[str]) -> list[Address]:
    """`host:port,host:port`; an IPv6 address stands in brackets, and the port is 9092 unless given.

    A scheme before it, as listeners have (`SASL_SSL://host:port`), says nothing, as in Kafka's clients: how to connect
    is said with security.protocol.

    Raises:
        ValueError: there is none, or a port is not a number.
    """
    addresses = []
    for server in servers.split(",") if isinstance(servers, str) else servers:
        text = _SCHEME.sub("", server.strip(), 1)
        if not text:
            continue
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"'{server.strip()}' is not HOST:PORT")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no server is named")
    return addresses


def lacks(partition: TopicPartition, count: int) -> UnknownTopicOrPartition:
    """The error of a partition that its topic, which has so many, does not have."""
    has = "1 partition" if count == 1 else f"{count} partitions"
    return UnknownTopicOrPartition(f"topic '{partition.topic}' has no partition {partition.partition}: it has {has}")


class Cluster:
    """Connections to the brokers of a cluster; `async with Cluster("host:9092") as cluster: ...`.

    For the tasks of one trio run. Nothing is connected before the first call. `security` is for all connections, made
    by `Security.of(settings)`; None is plain text.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "ottla",
        timeout_ms: float = TIMEOUT_MS,
        security: Security | None = None,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self.security = security
        self.metadata = Metadata()
        self._connections: dict[Address, Connection] = {}
        self._connecting: dict[Address, trio.Lock] = {}
        #: Connections for requests that wait at the broker: those that nobody has, and all.
        self._spare: dict[Address, list[Connection]] = {}
        self._lendable: set[Connection] = set()
        #: What goes on without anybody who waits for it; it ends when the connections are closed.
        self.ongoing: set[Ongoing[Any]] = set()
        #: How often the connections were closed: one that is being made meanwhile is closed as well.
        self._closings = 0

    async def connection(self, address: Address) -> Connection:
        """The open connection to a broker, or a new one.

        Raises:
            OSError, ConnectionLost, NotABroker, SaslAuthenticationFailed: as `Connection.connect`.
        """
        if not self._connections:
            need_trio()
        async with self._connecting.setdefault(address, trio.Lock()):
            found = self._connections.get(address)
            if found is None or found.closed:
                found = await self._connect(address)
                self._connections[address] = found
            return found

    @asynccontextmanager
    async def lent_connection(self, address: Address) -> AsyncIterator[Connection]:
        """A connection to a broker that is the caller's alone, for a request that waits there: a broker carries out a
        connection's requests one after the other, so others would wait with it. Errors as `connection`.
        """
        spare = self._spare.setdefault(address, [])
        while spare and spare[-1].closed:
            self._lendable.discard(spare.pop())
        found = spare.pop() if spare else await self._connect(address)
        self._lendable.add(found)
        is_answered = False
        try:
            yield found
            is_answered = True
        finally:
            # An answer that is still to come would be waited for by the next request.
            if is_answered and not found.closed:
                spare.append(found)
            else:
                self._lendable.discard(found)
                with trio.CancelScope(shield=True):
                    await found.aclose()

    async def _connect(self, address: Address) -> Connection:
        closings = self._closings
        try:
            connection = await Connection.connect(
                *address,
                self.client_id,
                timeout_ms=self.timeout_ms,
                security=self.security,
                is_known=bool(self.metadata.brokers),
            )
            try:
                need_metadata(str(address), connection.protocol)
            except NotABroker:
                await connection.aclose()
                raise
        except (BadAddress, NotABroker) as problem:
            if address in self.bootstrap:
                raise
            raise named_by_brokers(problem) from problem
        if self._closings != closings:
            await connection.aclose()
            raise ConnectionLost(f"the connection to {address} was closed here while it was made")
        return connection

    async def any_connection(self) -> Connection:
        """A connection to whichever broker answers: first the open ones, then the known ones, then the bootstrap list.
        One whose broker owes an answer for more than a moment is used if there is no other.

        Raises:
            ConnectionLost: none does. UnknownHost: no broker was ever reached, and no name in the list is known.
            NotABroker: none was ever reached, and everywhere something else answers, or the name is unknown.
        """
        for connection in self._connections.values():
            if not connection.closed and connection.silent_s() < SILENT_MS / 1000:
                return connection

        async def use(connection: Connection) -> Connection:
            return connection

        return await self._first(use)

    async def ask(self, api: Api[Request, Response], message: Request) -> Response:
        """Asks whichever broker answers, for what all of them know. One that does not answer within a moment is not
        waited for alone: the next one is asked, too.

        Raises:
            OSError, RemoteProtocolError: none answers. Otherwise as `any_connection`.
        """

        async def use(connection: Connection) -> Response:
            return await connection.call(api, message, timeout_ms=self.timeout_ms)

        return await self._first(use)

    async def _first(self, use: Callable[[Connection], Awaitable[T]]) -> T:
        """What is first given of this use of brokers' connections, in the order that `any_connection` tells."""
        need_trio()
        problems: dict[Address, Exception] = {}
        is_reached = False

        async def attempt(address: Address) -> T:
            nonlocal is_reached
            try:
                connection = await self.connection(address)
            except (OSError, RemoteProtocolError) as problem:
                problems[address] = problem
                raise
            is_reached = True
            return await use(connection)

        try:
            return await first_of([partial(attempt, each) for each in self._by_readiness()], after_ms=SILENT_MS)
        except (OSError, RemoteProtocolError) as problem:
            if is_reached:
                raise
            if len(problems) == 1 and isinstance(problem, NotABroker):
                raise
            names = ", ".join(map(str, self.bootstrap))
            why = reasons({str(address): each for address, each in problems.items()})
            raise self._kind(problems.values())(f"no broker answers at {names}: {why}") from problem

    def _kind(self, problems: Collection[Exception]) -> type[ConnectionLost]:
        """Of the error that no broker was reached, by what was met at each address."""
        unknown = [isinstance(each, BadAddress) and each.errno in UNKNOWN_NAME for each in problems]
        others = [isinstance(each, NotABroker) for each in problems]
        if self.metadata.brokers or not all(a or b for a, b in zip(unknown, others, strict=True)):
            return ConnectionLost
        return NotABroker if any(others) else UnknownHost

    def is_in_vain(self, problem: BaseException | None) -> bool:
        """Returns True for the error of a cluster that waiting does not mend. Where a broker was once, one may come
        again.
        """
        return isinstance(problem, UnknownHost | NotABroker) and not self.metadata.brokers

    def _by_readiness(self) -> list[Address]:
        """All addresses, those first at which a broker is most likely to answer."""
        opened = {each: found for each, found in self._connections.items() if not found.closed}
        silent = [each for each, found in opened.items() if found.silent_s() >= SILENT_MS / 1000]
        ready = [each for each in opened if each not in silent]
        others = [each for each in (*self.metadata.brokers.values(), *self.bootstrap) if each not in silent]
        return list(dict.fromkeys([*ready, *others, *silent]))

    async def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Asks for the metadata of these topics, or of all (None), and keeps them.

        `create` lets the broker create a missing topic, if it does so at all. Errors of topics are left in the answer.
        """
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = await self.ask(METADATA, MetadataRequest(topics=asked, allow_auto_topic_creation=create))
        known = self.metadata
        known.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        known.controller_id, known.cluster_id = answer.controller_id, answer.cluster_id
        if asked is None:
            known.topics.clear()
            known.leaders.clear()
            known.errors.clear()
        for topic in answer.topics:
            for key in [key for key in known.leaders if key.topic == topic.name]:
                del known.leaders[key]
            known.topics.pop(topic.name, None)
            known.errors.pop(topic.name, None)
            if topic.error_code == 0:
                known.topics[topic.name] = topic
            else:
                known.errors[topic.name] = topic.error_code
            for partition in topic.partitions:
                # One that is not among the brokers is gone: to whom it passes on is to be asked, not remembered.
                if partition.leader_id in known.brokers:
                    known.leaders[TopicPartition(topic.name, partition.partition_index)] = partition.leader_id
        return answer

    async def topic(self, name: str, *, create: bool = False) -> MetadataResponseTopic:
        """A topic's metadata, asked if not known.

        Raises:
            KafkaError: it does not exist, or what else the broker says of it, after retrying what may pass.
        """

        async def ask() -> MetadataResponseTopic:
            if (known := self.metadata.topics.get(name)) is not None:
                return known
            answer = await self.refresh([name], create=create)
            found = row_about(f"topic '{name}'", answer.topics)
            if found.error_code != 0:
                raise error(found.error_code, f"topic '{name}'")
            return found

        # Without creation an unknown topic stays unknown; with it a broker may say so until the topic is there.
        if create:
            return await self.retry(ask, gone_ms=math.inf)
        return await self.retry(ask, final=(UnknownTopicOrPartition,))

    async def partitions(self, name: str) -> list[int]:
        """The numbers of a topic's partitions, in order."""
        topic = await self.topic(name)
        return sorted(partition.partition_index for partition in topic.partitions)

    async def leader(self, partition: TopicPartition) -> Address:
        """Where the partition's leader listens.

        Raises:
            LeaderNotAvailable: there is none now. UnknownTopicOrPartition: there is no such partition.
        """
        if partition not in self.metadata.leaders:
            self.metadata.topics.pop(partition.topic, None)
            topic = await self.topic(partition.topic)
            if partition.partition not in (each.partition_index for each in topic.partitions):
                raise lacks(partition, len(topic.partitions))
        leader = self.metadata.leaders.get(partition, NO_LEADER)
        if leader not in self.metadata.brokers:
            raise LeaderNotAvailable(f"{partition} has no leader now")
        return self.metadata.brokers[leader]

    def located(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[Address, list[TopicPartition]], dict[TopicPartition, KafkaError | None]]:
        """Partitions by their leaders' addresses as far as is known, and why the others have none; None where metadata
        were not asked yet. Asks nobody.
        """
        groups: dict[Address, list[TopicPartition]] = {}
        without: dict[TopicPartition, KafkaError | None] = {}
        brokers, leaders = self.metadata.brokers, self.metadata.leaders
        for partition in partitions:
            address = brokers.get(leaders.get(partition, NO_LEADER))
            if address is not None:
                groups.setdefault(address, []).append(partition)
            else:
                without[partition] = self._why_none(partition)
        return groups, without

    def _why_none(self, partition: TopicPartition) -> KafkaError | None:
        known = self.metadata.topics.get(partition.topic)
        if known is None:
            code = self.metadata.errors.get(partition.topic)
            return None if code is None else error(code, f"topic '{partition.topic}'")
        if all(each.partition_index != partition.partition for each in known.partitions):
            return lacks(partition, len(known.partitions))
        return LeaderNotAvailable(f"{partition} has no leader now")

    def forget(self, topics: Iterable[str]) -> None:
        """Their metadata turned out to be old; they are asked again when next needed."""
        gone = set(topics)
        for topic in gone:
            self.metadata.topics.pop(topic, None)
            self.metadata.errors.pop(topic, None)
        for key in [key for key in self.metadata.leaders if key.topic in gone]:
            del self.metadata.leaders[key]

    async def call_any(self, api: Api[Request, Response], message: Request) -> Response:
        """As `ask`, again after what may pass."""

        return await self.retry(partial(self.ask, api, message))

    async def call_controller(
        self, api: Api[Request, Response], message: Request, code: Callable[[Response], int]
    ) -> Response:
        """Asks the controller; `code` finds the error in its answer that may be NOT_CONTROLLER."""

        async def once() -> Response:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh([])
            if self.metadata.controller_id not in self.metadata.brokers:
                raise BrokerNotAvailable("the cluster has no controller now")
            connection = await self.connection(self.metadata.brokers[self.metadata.controller_id])
            answer = await connection.call(api, message, timeout_ms=self.timeout_ms)
            if code(answer) == NotController.code:
                self.metadata.controller_id = NO_LEADER
                raise NotController("the controller moved")
            return answer

        return await self.retry(once)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        final: tuple[type[KafkaError], ...] = (),
        gone_ms: float = GONE_MS,
    ) -> T:
        """Repeats an attempt while it fails with what may pass, waiting longer each time, for `timeout_ms` in all, and
        with an unknown topic or partition for `gone_ms`.

        `final` are errors that are not to be repeated here although they may be elsewhere. `UnknownHost` and
        `NotABroker` are not repeated before a broker was reached. Raises the last error.
        """
        if not self._connections:
            need_trio()
        deadline, gone_at = trio.current_time() + self.timeout_ms / 1000, math.inf
        wait_ms = RETRY_MS
        while True:
            until = deadline
            try:
                return await attempt()
            except final:
                raise
            except KafkaError as problem:
                if isinstance(problem, UnknownTopicOrPartition):
                    gone_at = min(gone_at, trio.current_time() + gone_ms / 1000)
                    until = min(deadline, gone_at)
                else:
                    gone_at = math.inf
                if not problem.retriable or trio.current_time() + wait_ms / 1000 > until:
                    raise
            except (OSError, RemoteProtocolError) as problem:
                if self.is_in_vain(problem):
                    raise
                self.metadata.controller_id = NO_LEADER
                if trio.current_time() + wait_ms / 1000 > deadline:
                    raise
            await trio.sleep(wait_ms / 1000)
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> Mapping[Address, list[TopicPartition]]:
        """Partitions grouped by their leaders' addresses; errors as `leader`."""
        groups: dict[Address, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(await self.leader(partition), []).append(partition)
        return groups

    async def aclose(self) -> None:
        """Closes all connections, those that are being made as well."""
        self._closings += 1
        for call in list(self.ongoing):
            call.cancel()
        # All of them, also where the caller is cancelled.
        with trio.CancelScope(shield=True):
            for connection in [*self._connections.values(), *self._lendable]:
                await connection.aclose()
        self._connections.clear()
        self._lendable.clear()
        self._spare.clear()

    async def __aenter__(self) -> Self:
        need_trio()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
