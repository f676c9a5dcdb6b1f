"""The order of the checks: from the name to the groups; each needs what those before it found."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from ottla.client.cluster import Address
from ottla.client.connection import Connection
from ottla.client.security import Security
from ottla.doctor import (
    brokers,
    certificates,
    clock,
    groups,
    migration,
    partitions,
    rules,
    settings,
    throttles,
    transactions,
)
from ottla.doctor.brokers import Cluster
from ottla.doctor.findings import Report
from ottla.doctor.reach import Speaks, addresses, connect, speaks, why

if TYPE_CHECKING:
    from ottla.broker.zookeeper_access import Access
    from ottla.doctor.mirrors import Mirrors


@dataclass(frozen=True, slots=True)
class Options:
    """How long an answer may take, whether something may be written, from which lag on a group is late, and how the
    connections are secured. With `migrates`, whether Ottla's brokers can take the brokers' places; `zookeeper` is then
    the brokers' zookeeper.connect, if the tree is to be looked at, and `access` says who to be there. `mirrors` are
    those of a file, to be looked at too.
    """

    timeout_s: float = 5.0
    may_write: bool = False
    lag_max: int = 100_000
    security: Security | None = None
    migrates: bool = False
    zookeeper: str | None = None
    access: Access | None = None
    mirrors: Mirrors | None = None


async def examine(host: str, port: int, options: Options | None = None) -> Report:
    """Everything that can be found out from here about the cluster of the broker at this address."""
    return await examine_all([Address(host, port)], options)


async def examine_all(bootstrap: Sequence[Address], options: Options | None = None) -> Report:
    """The same for a list of addresses, as clients are given: each is tried, and the first that leads to a broker is
    asked about the cluster.
    """
    options = options or Options()
    report = Report(",".join(f"{host}:{port}" for host, port in bootstrap))
    found = {}
    for address in bootstrap:
        if listening := await _reach(report, *address, options):
            found[address] = listening
    async with _closing() as connections:
        for (host, port), listening in found.items():
            cluster = await brokers.look(
                report, host, port, listening, options.timeout_s, connections, options.security
            )
            if cluster is not None:
                await _inside(report, cluster, options)
                break
    if options.migrates and options.zookeeper is not None:
        await migration.check_tree(report, options.zookeeper, options.timeout_s, options.access)
    elif options.migrates:
        report.skipped(migration.TREE, "not looked at", "name the brokers' zookeeper.connect with --zookeeper")
    if options.mirrors is not None:
        from ottla.doctor.mirrors import check_mirrors

        await check_mirrors(report, options.mirrors, options.timeout_s, options.lag_max)
    return report


async def _inside(report: Report, cluster: Cluster, options: Options) -> None:
    checks: list[Any] = [
        partitions.check_directories,
        partitions.check_replicas,
        partitions.check_served,
        partitions.check_absent,
        partitions.check_leaders,
        settings.check_internal_topics,
        settings.check_settings,
        settings.check_topics,
        settings.check_understood,
        rules.check_rules,
        throttles.check_throttles,
        transactions.check_open,
    ]
    for check in checks:
        with _explained(report, check.__name__.removeprefix("check_")):
            await check(report, cluster)
    with _explained(report, "groups"):
        await groups.check_groups(report, cluster, options.lag_max)
    with _explained(report, "clock"):
        await clock.check_clock(report, cluster, may_write=options.may_write)
    if options.migrates:
        with _explained(report, migration.BROKERS):
            await migration.check_brokers(report, cluster)


@contextlib.contextmanager
def _explained(report: Report, check: str) -> Any:
    """One check that cannot be made, for instance without the right to it, must not hide what the others find."""
    try:
        yield
    except (OSError, trio.TooSlowError, brokers.Refused) as error:
        report.warning(check, f"cannot be looked at: {error}", "look at the broker's log, and whether you may ask this")


async def _reach(report: Report, host: str, port: int, options: Options) -> list[str]:
    """The addresses that lead to a broker; none if the search ends here."""
    try:
        known = await addresses(host)
    except OSError as error:
        report.problem("name", f"{host} is unknown here: {why(error)}", "check the name, or use an address")
        return []
    if known != [host]:  # an address stands for itself
        report.ok("name", f"{host} is {', '.join(known)}")
    listening: list[str] = []
    failures: dict[str, str] = {}
    for address in known:
        try:
            await (await connect(address, port, options.timeout_s)).aclose()
            listening.append(address)
        except OSError as error:
            failures[address] = why(error)
    if not listening:
        each = "; ".join(f"{address}: {failure}" for address, failure in failures.items())
        report.problem(
            "port",
            f"nobody listens at port {port}: {each}",
            "is the broker running, with a `listeners` that takes connections from here? Refused: nothing listens "
            "there; no answer: a firewall",
        )
        return []
    if failures:
        report.warning(
            "port",
            f"port {port} answers at {', '.join(listening)}, but not at {', '.join(failures)}",
            f"clients try them all, which takes time: let {host} stand for the addresses where the broker listens",
        )
    else:
        report.ok("port", f"port {port} takes connections")
    what = await speaks(listening[0], port, options.timeout_s)
    if what is brokers.expected(options.security):
        report.ok("protocol", "a Kafka broker answers" if what is Speaks.KAFKA else "TLS is spoken, as it should be")
        if what is Speaks.TLS:
            await certificates.check_shown(report, host, port, options.timeout_s)
        return listening
    words = {
        Speaks.KAFKA: (
            "this port speaks Kafka's protocol without TLS",
            "set security.protocol=PLAINTEXT (or SASL_PLAINTEXT), or use the port of an SSL listener",
        ),
        Speaks.TLS: (
            "this port speaks TLS",
            "set security.protocol=SSL (or SASL_SSL) in your clients, or use the port of a PLAINTEXT listener; the "
            "doctor reads it from --command-config",
        ),
        Speaks.HTTP: ("a web server answers", "Kafka's protocol is not HTTP: use the port of the broker's `listeners`"),
        Speaks.NOTHING: (
            "the connection is taken, but nothing answers ApiVersions",
            "is it a broker (ZooKeeper's port is 2181)? One of before Kafka 0.10, or one that hangs, is silent too",
        ),
        Speaks.ELSE: ("something answers that is not Kafka's protocol", "use the port of the broker's `listeners`"),
    }
    report.problem("protocol", *words[what])
    return []


@asynccontextmanager
async def _closing() -> AsyncIterator[list[Connection]]:
    connections: list[Connection] = []
    try:
        yield connections
    finally:
        with trio.CancelScope(shield=True):
            for connection in connections:
                await connection.aclose()
