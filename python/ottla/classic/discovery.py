"""Where the brokers are: a list, or what ZooKeeper's `/brokers` says now.

With ZooKeeper, brokers and partitions that come and go are noticed: `version` changes with each, and what was known of
topics is asked again.
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from ottla.classic.errors import InvalidConfig
from ottla.classic.loop import Loop
from ottla.client.cluster import Address, parse_bootstrap
from ottla.coordination.tree import (
    SessionState,
    Tree,
    TreeError,
    WatchEvent,
    get_or_none,
)
from ottla.coordination.znodes import BrokerRegistration, MalformedNode
from ottla.coordination.zookeeper import ZooKeeperTree

logger = logging.getLogger(__name__)

IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
RETRY_MS = 1000


class Discovery(Protocol):
    """Where to ask for metadata. `version` is another one when what was known may be old."""

    @property
    def addresses(self) -> list[Address]: ...
    @property
    def version(self) -> int: ...
    def close(self) -> None: ...


class StaticList:
    """`host:port,...`, in 0.7 `id:host:port,...`.

    Raises:
        InvalidConfig: it is none.
    """

    version = 0

    def __init__(self, brokers: str) -> None:
        parts = [part.strip() for part in brokers.split(",") if part.strip()]
        plain = [part.split(":", 1)[1] if part.count(":") == 2 and part[0] != "[" else part for part in parts]
        try:
            self.addresses = parse_bootstrap(plain)
        except ValueError as problem:
            raise InvalidConfig(f"'metadata.broker.list': {problem}") from problem

    def close(self) -> None:
        pass


class InZooKeeper:
    """The registrations of brokers and topics, watched by a task of the loop.

    Raises:
        Unavailable: no ZooKeeper server answers in time.
    """

    def __init__(self, servers: str, session_timeout_ms: int, connect_timeout_ms: int) -> None:
        self.addresses: list[Address] = []
        self.version = 0
        self._servers = servers
        self._session_timeout_ms = session_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._loop = Loop()
        self._scope: trio.CancelScope = self._loop.start(self._run)

    def close(self) -> None:
        self._loop.soon(self._scope.cancel)

    async def _run(self, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        tree = await ZooKeeperTree.connect(
            self._servers,
            session_timeout_ms=self._session_timeout_ms,
            connect_timeout_ms=self._connect_timeout_ms,
            create_chroot=False,
        )
        watch = _Watch()
        with trio.CancelScope() as scope:
            remove = tree.listen(watch.session)
            try:
                await self._read(tree, watch)
                task_status.started(scope)
                while True:
                    await watch.event.wait()
                    watch.event = trio.Event()
                    try:
                        await self._read(tree, watch)
                    except TreeError as problem:
                        logger.warning("brokers cannot be read from ZooKeeper: %s", problem)
                        await trio.sleep(RETRY_MS / 1000)
                        watch.event.set()
            finally:
                remove()
                with trio.CancelScope(shield=True):
                    await tree.aclose()

    async def _read(self, tree: Tree, watch: _Watch) -> None:
        self.addresses = await registered(tree, watch)
        try:
            topics = await tree.children(TOPICS, watch)
        except TreeError:
            topics = []
        paths = [f"{TOPICS}/{topic}" for topic in topics]
        await tree.get_many(paths, [watch] * len(paths))
        self.version += 1


class _Watch:
    """Sets an event, whatever changes."""

    def __init__(self) -> None:
        self.event = trio.Event()

    def __call__(self, event: WatchEvent) -> None:
        self.event.set()

    def session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.event.set()


async def registered(tree: Tree, watch: object = None, *, protocol: str = "PLAINTEXT") -> list[Address]:
    """Where the registered brokers listen in this protocol, by their ids; a malformed registration is left out."""
    try:
        ids = await tree.children(IDS, watch)  # type: ignore[arg-type]
    except TreeError:
        ids = []
    addresses = []
    for name in sorted(ids, key=lambda name: (len(name), name)):
        path = f"{IDS}/{name}"
        if (node := await get_or_none(tree, path)) is None:
            continue
        try:
            endpoints = BrokerRegistration.decode(path, node.data).endpoints
        except MalformedNode as problem:
            logger.warning("a broker is left out: %s", problem)
            continue
        addresses += [Address(each.host, each.port) for each in endpoints if each.protocol == protocol][:1]
    return addresses
