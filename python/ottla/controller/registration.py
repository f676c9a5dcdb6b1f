"""A broker's place in the tree: `/brokers/ids/N`, and the cluster's id.

The registration is ephemeral and its czxid is the broker's epoch: the controller puts it into every request, so that
what was meant for a broker's former life is refused. After an expired session the broker registers again and has a new
epoch.

A node that is in the way belongs to someone: to our own session (the answer was lost), to a session that this process
had and lost (ZooKeeper may remove it late, ZOOKEEPER-2985), or to another process. Ours is kept, our dead session's is
replaced, and for another's end we wait a while: a broker that was killed and started again finds its own old session
not expired yet. Kafka 2.7 fails at once there.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    ConnectionLoss,
    Create,
    Node,
    NodeExists,
    NoNode,
    SessionExpired,
    Set,
    Stat,
    Tree,
    TreeError,
    WatchEvent,
    ensure_one,
    get_or_none,
)
from ottla.coordination.znodes import BrokerRegistration, MalformedNode

logger = logging.getLogger(__name__)

WAIT_MS = 30_000
"""For the session of a former process with our id to expire: more than Kafka's default session timeout of 18 s."""


class AlreadyRegistered(TreeError):
    """A broker with this id lives: another process, whose session does not end."""


class Registration:
    """One broker's registration. `register` once at the start. Then the broker's controller sees to it that every new
    session has one, before it stands for election.
    """

    def __init__(
        self,
        tree: Tree,
        broker_id: int,
        describe: Callable[[], BrokerRegistration],
        *,
        on_epoch: Callable[[int], None] | None = None,
    ) -> None:
        """`describe` is asked for the content whenever it is written; `on_epoch` hears of every new broker epoch."""
        self._tree = tree
        self._broker_id = broker_id
        self._describe = describe
        self._on_epoch = on_epoch
        self._own_sessions: set[int] = set()
        self._session_id = 0
        self._epoch = -1
        self._made = trio.Event()

    @property
    def epoch(self) -> int:
        """The broker epoch: the czxid of the registration; -1 before the first."""
        return self._epoch

    @property
    def is_current(self) -> bool:
        """Whether the registration belongs to the session that the tree has now."""
        return self._epoch >= 0 and self._session_id == self._tree.session_id

    async def made(self) -> None:
        """Waits until this process was registered for the first time."""
        await self._made.wait()

    async def register(self, *, wait_ms: int = WAIT_MS) -> int:
        """Make the registration and return the broker epoch.

        Raises AlreadyRegistered if another process still holds the id after `wait_ms`, SessionExpired if the session
        ended meanwhile. While the tree is away it waits.
        """
        path = znodes.broker_path(self._broker_id)
        stat: Stat | None = None
        while stat is None:
            stat = await self._try(path, wait_ms)
        self._session_id = stat.ephemeral_owner
        self._own_sessions.add(stat.ephemeral_owner)
        self._epoch = stat.czxid
        self._made.set()
        logger.info("broker %d is registered with epoch %d", self._broker_id, stat.czxid)
        if self._on_epoch is not None:
            self._on_epoch(stat.czxid)
        return stat.czxid

    async def watch(self, lost: Callable[[], Awaitable[None]]) -> None:
        """Registers again whenever the registration is removed while the session lives, until cancelled: the controller
        does that if it takes this process for gone (`neighbours`). `lost` is called before: others may lead what this
        broker leads. The end of a session is not seen to here.

        Raises AlreadyRegistered as `register` does.
        """
        path = znodes.broker_path(self._broker_id)
        while True:
            changed = trio.Event()

            def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            await self._tree.wait_connected()
            session = self._tree.session_id
            with contextlib.suppress(SessionExpired):
                stat = await self._tree.exists(path, wake)
                if self.is_current and session == self._tree.session_id and (stat is None or stat.czxid != self._epoch):
                    logger.warning(
                        "broker %d: its registration was removed, and it lives: it registers again", self._broker_id
                    )
                    await lost()
                    await self.register()
                    continue
                await changed.wait()

    async def update(self) -> None:
        """Write again what the broker says of itself: its endpoints changed."""
        await self._tree.set(znodes.broker_path(self._broker_id), self._describe().encode())

    async def _try(self, path: str, wait_ms: int) -> Stat | None:
        data = self._describe().encode()
        try:
            # The second operation is there for its Stat, which a creation does not give.
            _, stat = await self._tree.multi([Create(path, b"", ephemeral=True), Set(path, data, 0)])
        except ConnectionLoss:
            await self._tree.wait_connected()
        except NodeExists:
            pass
        else:
            made: Stat = stat
            return made
        node = await get_or_none(self._tree, path)
        if node is None:
            return None
        owner = node.stat.ephemeral_owner
        if owner == self._tree.session_id:
            return node.stat
        if owner in self._own_sessions:
            with contextlib.suppress(NoNode, BadVersion, ConnectionLoss):
                await self._tree.delete(path, node.stat.version)
            return None
        other = _owner(path, node)
        message = "broker %d is registered already, by %s: waiting for the end of that session, %.0f s at most"
        logger.warning(message, self._broker_id, other, wait_ms / 1000)
        with trio.move_on_after(wait_ms / 1000) as scope:
            await self._until_gone(path)
        if scope.cancelled_caught:
            raise AlreadyRegistered(
                path,
                f"another process is broker {self._broker_id}: {other}. Stop it, or give this one another broker.id",
            )
        return None

    async def _until_gone(self, path: str) -> None:
        while True:
            changed = trio.Event()

            def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            if await self._tree.exists(path, wake) is None:
                return
            await changed.wait()


def _owner(path: str, node: Node) -> str:
    """Who has registered: what it says of itself, and its session."""
    session = f"session 0x{node.stat.ephemeral_owner:x}"
    try:
        endpoints = BrokerRegistration.decode(path, node.data).endpoints
    except MalformedNode:
        return session
    return f"{', '.join(map(str, endpoints))} in {session}"


async def prepare(tree: Tree) -> None:
    """Make the nodes that a cluster always has, so that they can be watched."""
    await tree.ensure(*znodes.PERSISTENT_PATHS)


async def get_or_create_cluster_id(tree: Tree) -> str:
    """The cluster's id; the first broker makes it: a random UUID in 22 characters of URL-safe base64, as Kafka's."""
    await tree.ensure(znodes.CLUSTER)
    while True:
        node = await get_or_none(tree, znodes.CLUSTER_ID)
        if node is not None:
            return znodes.decode_cluster_id(node.data)
        proposed = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        await ensure_one(tree, znodes.CLUSTER_ID, znodes.encode_cluster_id(proposed))
