"""What commands that look into a cluster's ZooKeeper share: the session, and the brokers that are found there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli._client import parsed_bootstrap, security
from ottla.cli._errors import explained
from ottla.cli._settings import zookeeper_servers
from ottla.cli._zookeeper_access import access_option, open_tree

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.coordination.tree import Tree

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

SESSION_MS = 6_000
"""As old consumers have it. So long the end of a command waits for a server that takes connections and says nothing."""
CONNECT_MS = 10_000
"""How long a ZooKeeper may take to begin a session, unless --timeout-ms is less: one that is there answers at once."""


def zookeeper_option(help_text: str) -> Callable[[Function], Function]:
    """Adds `--zookeeper`, which is None unless it was given, and what says who to be there."""
    option = click.option("--zookeeper", metavar="HOST:PORT/chroot", callback=zookeeper_servers, help=help_text)
    return lambda function: option(access_option(function))


class Session:
    """A session with the ZooKeeper of a cluster, and connections to its brokers if they are asked for."""

    def __init__(self, tree: Tree, servers: str, bootstrap: str | None, timeout_ms: int, stack: AsyncExitStack) -> None:
        self.tree = tree
        self.servers = servers
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms
        self._stack = stack
        self._cluster: Cluster | None = None

    async def answered(self, reads: Callable[[], Awaitable[T]]) -> T:
        """What is read from the tree. Raises Unavailable if ZooKeeper does not answer in time."""
        import trio

        from ottla.coordination.tree import Unavailable

        with trio.move_on_after(self._timeout_ms / 1000):
            return await reads()
        raise Unavailable("/", f"ZooKeeper at {self.servers} has not answered for {self._timeout_ms} ms")

    async def cluster(self) -> Cluster:
        """The cluster, through --bootstrap if that was given, else through the brokers that are registered.

        Raises:
            click.ClickException: none is registered. OSError: none answers.
        """
        from ottla.classic.discovery import registered
        from ottla.client.cluster import Cluster

        if self._cluster is not None:
            return self._cluster
        secured = security()
        names: list[str] | str = self._bootstrap or ""
        if not names:
            protocol = secured.protocol if secured is not None else "PLAINTEXT"
            found = await self.answered(lambda: registered(self.tree, protocol=protocol))
            if not found:
                raise click.ClickException(
                    f"no broker with a listener of {protocol} is registered in ZooKeeper at {self.servers}"
                )
            names = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in found]
        cluster = Cluster(names, client_id="ottla-cli", timeout_ms=self._timeout_ms, security=secured)
        await self._stack.enter_async_context(cluster)
        try:
            await cluster.any_connection()
        except ValueError as error:  # what --command-config names cannot be read
            raise click.ClickException(str(error)) from None
        self._cluster = cluster
        return cluster


def with_zookeeper(
    doing: str, servers: str, bootstrap: str | None, timeout_ms: int, work: Callable[[Session], Awaitable[T]]
) -> T:
    """Runs `work` with a session. What goes wrong becomes one line: `doing: why`. `bootstrap`: brokers to ask in place
    of those that are registered.
    """
    from ottla.classic.groups import GroupHasMembers
    from ottla.cli._interrupts import run as run_quietly
    from ottla.coordination.tree import LoginRefused, NoNode, NoZooKeeper, TreeError, Unavailable

    if bootstrap is not None:
        parsed_bootstrap(bootstrap, "--bootstrap")
    where = "--zookeeper is what the brokers have as zookeeper.connect, with the path behind the hosts"

    async def run() -> T:
        try:
            connect_ms = min(timeout_ms, CONNECT_MS)
            tree = await open_tree(
                servers,
                session_timeout_ms=SESSION_MS,
                connect_timeout_ms=connect_ms,
                create_chroot=False,
            )
        except NoNode as error:
            raise click.ClickException(f"{doing}: there is no {error.path} in that ZooKeeper; {where}") from None
        except (NoZooKeeper, LoginRefused) as error:
            raise click.ClickException(f"{doing}: {error}") from None
        except Unavailable as error:
            raise click.ClickException(f"{doing}: {error}; is a ZooKeeper running there?") from None
        async with tree, AsyncExitStack() as stack:
            session = Session(tree, servers, bootstrap, timeout_ms, stack)
            if not await session.answered(lambda: _has_cluster(tree)):
                raise click.ClickException(
                    f"{doing}: no cluster is in ZooKeeper at {servers}, which has neither /consumers nor /brokers; "
                    f"{where}"
                )
            return await work(session)

    with explained(doing):
        try:
            return run_quietly(run)
        except TreeError as error:
            raise click.ClickException(f"{doing}: {error}") from None
        except GroupHasMembers as error:
            raise click.ClickException(str(error)) from None


async def _has_cluster(tree: Tree) -> bool:
    from ottla.coordination import znodes

    return any(node is not None for node in await tree.get_many([znodes.CONSUMERS, znodes.BROKER_IDS]))
