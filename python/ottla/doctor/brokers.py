"""Every broker as a client meets it: at the address that it tells clients, which is where most first steps fail."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio

from ottla.client.connection import Connection
from ottla.client.errors import BadAddress, NotABroker, check_address, place
from ottla.client.living import leave_out_the_dead
from ottla.client.security import Security
from ottla.client.strangers import need_metadata
from ottla.doctor import reach
from ottla.doctor.findings import Report, some
from ottla.doctor.reach import Speaks
from ottla.errors import KafkaError, LocalProtocolError, RemoteProtocolError, error
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from ottla.wire.schema import Api, Request, Response

ADVERTISED = "set advertised.listeners of that broker to a name and port that clients reach, and restart it"


class Refused(Exception):
    """A broker cannot or will not answer a question."""


class Cluster:
    """The brokers that can be reached, and what they say of the cluster."""

    def __init__(self, metadata: MetadataResponse, connections: dict[int, Connection], timeout_s: float) -> None:
        self.metadata = metadata
        self.connections = connections
        self.timeout_s = timeout_s

    @property
    def size(self) -> int:
        return len(self.metadata.brokers)

    async def ask(self, broker: int, api: Api[Request, Response], message: Request) -> Response:
        """Raises Refused, OSError."""
        return await ask(self.connections[broker], api, message, self.timeout_s)

    async def ask_any(self, api: Api[Request, Response], message: Request) -> Response:
        """Raises Refused, OSError."""
        return await self.ask(next(iter(self.connections)), api, message)

    async def ask_controller(self, api: Api[Request, Response], message: Request) -> Response:
        """Raises Refused, OSError."""
        controller = self.metadata.controller_id
        if controller not in self.connections:
            raise Refused(f"the controller, broker {controller}, is not reachable from here")
        return await self.ask(controller, api, message)


def expected(security: Security | None) -> Speaks:
    """The protocol that a broker's port speaks to clients with these settings: TLS or plain Kafka."""
    return Speaks.TLS if security is not None and security.tls else Speaks.KAFKA


async def ask(connection: Connection, api: Api[Request, Response], message: Request, timeout_s: float) -> Response:
    """Raises Refused, OSError."""
    try:
        with trio.fail_after(timeout_s):
            return await connection.call(api, message)
    except (LocalProtocolError, RemoteProtocolError) as problem:
        raise Refused(str(problem)) from problem
    except trio.TooSlowError as problem:
        raise TimeoutError(f"{api.name} was not answered within {timeout_s:g} s") from problem


def named(code: int) -> str:
    """An error's name."""
    return error(code).name


async def connected(host: str, address: str, port: int, timeout_s: float, security: Security | None) -> Connection:
    """A connection to the broker at one of a host's addresses. With TLS it goes to the name, which the certificate is
    for. Raises as `Connection.connect`, Refused for a login that fails.
    """
    to = host if security is not None and security.tls else address
    try:
        return await Connection.connect(to, port, "ottla-doctor", timeout_ms=timeout_s * 1000, security=security)
    except KafkaError as problem:
        raise Refused(f"{problem} ({problem.name})") from problem


async def look(
    report: Report,
    host: str,
    port: int,
    found: list[str],
    timeout_s: float,
    connections: list[Connection],
    security: Security | None = None,
) -> Cluster | None:
    """The cluster of the broker at an address; None if it says nothing."""
    try:
        first = await connected(host, found[0], port, timeout_s, security)
        connections.append(first)
        need_metadata(place(host, port), first.protocol)
        metadata = await ask(first, METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False), timeout_s)
        await leave_out_the_dead(metadata, partial(first.call, timeout_ms=timeout_s * 1000))
    except NotABroker as problem:
        report.problem("protocol", str(problem), "use the port of the broker's `listeners`")
        return None
    except (OSError, Refused, RemoteProtocolError) as problem:
        mechanisms = await _sasl(found[0], port, timeout_s) if security is None else None
        if security is not None:
            report.problem(
                "protocol",
                f"the broker does not take us: {problem}",
                "compare the settings of --command-config with the broker's listener",
            )
        elif mechanisms is not None:
            report.problem(
                "protocol",
                f"this listener wants its clients to log in, by {', '.join(mechanisms)}",
                "set security.protocol=SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config in your clients; the doctor "
                "reads them from --command-config",
            )
        else:
            report.problem("protocol", f"the broker does not answer Metadata: {problem}", "look at the broker's log")
        return None
    _versions(report, first)
    if not metadata.brokers:
        report.problem(
            "brokers",
            "the broker knows of no brokers, not even itself: no controller has told it",
            "wait if it has just started; else the controller (itself, if it is alone) does not reach it where it says "
            "it is: look at advertised.listeners and at its log",
        )
        return None
    reached: dict[int, Connection] = {}
    for broker in metadata.brokers:
        connection = await _broker(report, broker, metadata, reach.is_loopback(found), timeout_s, security)
        if connection is not None:
            connections.append(connection)
            reached[broker.node_id] = connection
    _same_versions(report, reached)
    _controller(report, metadata)
    return Cluster(metadata, reached, timeout_s) if reached else None


async def _sasl(address: str, port: int, timeout_s: float) -> list[str] | None:
    """The mechanisms of a listener that answers nothing but the beginning of a login."""
    try:
        connection = await Connection.connect(address, port, "ottla-doctor", timeout_ms=timeout_s * 1000)
    except (OSError, RemoteProtocolError, KafkaError):
        return None
    try:
        answer = await ask(connection, SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="ottla-doctor"), timeout_s)
    except (OSError, Refused):
        return None
    finally:
        await connection.aclose()
    return answer.mechanisms or None


#: (key, version): the first release that has it. Ottla has some APIs of later releases, but not the versions here.
_RELEASES = (
    ((FETCH.key, 17), "3.9 or later"),
    ((FETCH.key, 16), "3.7"),
    ((FETCH.key, 15), "3.5"),
    ((FETCH.key, 13), "3.1"),
    ((PRODUCE.key, 9), "2.8"),
    ((FETCH.key, 12), "2.7"),
    ((45, 0), "2.4"),
    ((FETCH.key, 11), "2.3"),
    ((FETCH.key, 10), "2.1"),
    ((FETCH.key, 7), "1.1"),
    ((PRODUCE.key, 3), "0.11"),
)


def _versions(report: Report, connection: Connection) -> None:
    versions = connection.protocol.versions or {}
    release = next(
        (release for (key, version), release in _RELEASES if versions.get(key, (0, -1))[1] >= version), "0.10"
    )
    lowest, highest = versions.get(PRODUCE.key, (0, -1))
    if highest < 3:
        report.warning(
            "versions",
            "the broker speaks like Kafka 0.10: no idempotence, no transactions, no headers",
            "clients of today (Java 4, librdkafka 2.10 and later) refuse it: upgrade the broker",
        )
    elif lowest > 2:
        report.ok("versions", f"the broker speaks like Kafka {release}; clients need to be of 0.11 or later")
    else:
        report.ok("versions", f"the broker speaks like Kafka {release}, with clients of any age")


async def _listening(known: list[str], port: int, timeout_s: float) -> str:
    """The first of a name's addresses that takes a connection, as clients try them. Raises the last one's OSError."""
    for address in known[:-1]:
        with suppress(OSError):
            await (await reach.connect(address, port, timeout_s)).aclose()
            return address
    return known[-1]


def _same_versions(report: Report, reached: dict[int, Connection]) -> None:
    kinds = {broker: sorted((connection.protocol.versions or {}).items()) for broker, connection in reached.items()}
    first = next(iter(kinds.values()), None)
    others = [str(broker) for broker, versions in kinds.items() if versions != first]
    if others:
        who = f"broker {others[0]} speaks" if len(others) == 1 else f"brokers {some(others)} speak"
        report.warning(
            "versions",
            f"{who} other versions than broker {next(iter(kinds))}",
            "if an upgrade is under way, finish it; clients use what the broker has that they talk to",
        )


async def _broker(
    report: Report,
    broker: MetadataResponseBroker,
    metadata: MetadataResponse,
    is_local: bool,
    timeout_s: float,
    security: Security | None = None,
) -> Connection | None:
    """A connection to the address that a broker tells clients."""
    check = f"broker {broker.node_id}"
    where = f"{broker.host}:{broker.port}"
    if reach.is_unspecified(broker.host):
        report.problem(check, f"it tells clients to come to {where}, which is no address of anybody", ADVERTISED)
        return None
    try:
        check_address(broker.host, broker.port)
    except BadAddress as problem:
        report.problem(check, f"it tells clients to come to {problem}", ADVERTISED)
        return None
    try:
        known = await reach.addresses(broker.host)
    except OSError:
        hint = (
            " (a name that perhaps only its container or its machine knows)"
            if reach.looks_internal(broker.host)
            else ""
        )
        report.problem(check, f"it tells clients to come to {where}, a name that is unknown here{hint}", ADVERTISED)
        return None
    if reach.is_loopback(known) and not is_local:
        report.problem(
            check, f"it tells clients to come to {where}: every client would look for it on its own machine", ADVERTISED
        )
        return None
    connection: Connection | None = None
    try:
        address = await _listening(known, broker.port, timeout_s)
        what = await reach.speaks(address, broker.port, timeout_s)
        if what is not expected(security):
            report.problem(check, f"at {where}, where it tells clients to come, {what.value} answers", ADVERTISED)
            return None
        connection = await connected(broker.host, address, broker.port, timeout_s, security)
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        there = await ask(connection, METADATA, request, timeout_s)
    except (OSError, RemoteProtocolError, Refused) as problem:
        if connection is not None:
            await connection.aclose()
        report.problem(
            check,
            f"it tells clients to come to {where}, which cannot be reached from here: {reach.why(problem)}",
            ADVERTISED,
        )
        return None
    if there.cluster_id != metadata.cluster_id:
        await connection.aclose()
        report.problem(
            check,
            f"at {where}, where it tells clients to come, a broker of another cluster answers ({there.cluster_id} "
            f"instead of {metadata.cluster_id})",
            ADVERTISED,
        )
        return None
    only = ", from this machine only" if reach.is_loopback(known) else ""
    report.ok(check, f"reached at {where}, where it tells clients to come{only}")
    return connection


def _controller(report: Report, metadata: MetadataResponse) -> None:
    ids = [broker.node_id for broker in metadata.brokers]
    if metadata.controller_id not in ids:
        report.problem(
            "controller",
            "there is no controller: no topic can be made, no leader chosen",
            "look at the brokers' logs and at ZooKeeper (or the quorum)",
        )
    else:
        report.ok("controller", f"broker {metadata.controller_id} of {some([str(each) for each in ids])}")
