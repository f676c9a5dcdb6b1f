"""A broker's place in the tree: `/brokers/ids/N`, and the cluster's id.

The registration is ephemeral and its czxid is the broker's epoch: the controller puts it into every request, so that
what was meant for a broker's former life is refused. After an expired session the broker registers again and has a new
epoch.

A node that is in the way belongs to someone: to our own session (the answer was lost), to a session that this process
had and lost (ZooKeeper may remove it late, ZOOKEEPER-2985), or to another process. Ours is kept, our dead session's is
replaced, and for another's end we wait a while: a broker that was killed and started again finds its own old session
not expired yet. Kafka 2.7 fails at once there. An address that another broker has registered is waited for likewise,
before a process registers for the first time: a machine that comes back with another id finds its former session. Later
it keeps what it has.

Controllers remove registrations of processes that seem to be gone (`neighbours`). A broker that lives notices. It stops
leading, since others may have been elected, and it leads again only in a newer leader epoch. So a controller must see
that something has changed: after that the broker always has another epoch, and its node is replaced if need be. A
controller that knows the former epoch takes the broker for one that came back (KIP-380), and elects anew. A new
controller reads that the process has resigned (`BrokerRegistration.has_resigned`), and that it registered later than a
state was written. One that does neither tells a leader epoch in which the broker led and leads no more: then the broker
registers anew (`renew`).
"""

from __future__ import annotations

import base64
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable

import msgspec
import trio

from ottla.controller.same_address import holder
from ottla.coordination import znodes
from ottla.coordination.tree import (
    BadVersion,
    ConnectionLoss,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Operation,
    SessionExpired,
    SessionState,
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
"""For the session of a former process with our id, or at our address, to expire: more than Kafka's default session
timeout of 18 s.
"""


class AlreadyRegistered(TreeError):
    """A broker with this id, or with an address of this one, lives: another process, whose session does not end."""


def is_lost(asked: int | None, epoch: int, found: int | None) -> bool:
    """True if an answer about the node says that a registration was removed.

    `asked` is the epoch of the registration that the question was about; None if the session had none then. `epoch` is
    the epoch now, and `found` the czxid of the node in the answer, None without a node. An answer that comes late says
    nothing of a registration that was made after the question.
    """
    return asked is not None and asked == epoch and found != asked


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
        cluster_id: str | None = None,
    ) -> None:
        """`describe` is asked for the content whenever it is written; `on_epoch` hears of every new broker epoch. With
        `cluster_id` the broker registers only in a tree that has the node of this cluster.
        """
        self._tree = tree
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._describe = describe
        self._on_epoch = on_epoch
        self._own_sessions: set[int] = set()
        self._session_id = 0
        self._epoch = -1
        self._made = trio.Event()
        #: True if this process has led partitions, and leads them no more.
        self._has_resigned = False
        self._registering = trio.Lock()
        self._is_over = False
        #: How often the tree was not heard, and whether the node was there since the last time.
        self._silences = 0
        self._is_seen = False
        #: Ends the wait for a change of the node.
        self._woken = trio.Event()
        #: The epoch of the registration that is to be replaced, and the newest controller for which that was asked.
        self._renewed: int | None = None
        self._renewed_for = -1

    @property
    def epoch(self) -> int:
        """The broker epoch: the czxid of the registration; -1 before the first."""
        return self._epoch

    @property
    def is_current(self) -> bool:
        """True if the registration belongs to the session that the tree has now."""
        return self._epoch >= 0 and self._session_id == self._tree.session_id

    @property
    def is_seen(self) -> bool:
        """True if the registration was found in the tree since that is heard again, and since the last `doubt`. A
        controller may have removed it meanwhile.
        """
        return self._is_seen and self.is_current

    async def made(self) -> None:
        """Waits until this process was registered for the first time."""
        await self._made.wait()

    async def register(self, *, wait_ms: int = WAIT_MS, after: int = -1) -> int:
        """Make the registration and return the broker epoch, which is greater than `after`.

        Raises AlreadyRegistered if another process still holds the id after `wait_ms`, or another broker an address of
        this one before it is registered for the first time; SessionExpired if the session ended meanwhile. While the
        tree is away, or has not the node of this cluster, it waits.
        """
        path = znodes.broker_path(self._broker_id)
        await self.at_home()
        async with self._registering:
            stat: Stat | None = None
            while stat is None:
                if self._epoch < 0:
                    await self._until_addresses_are_free(wait_ms)
                stat = await self._try(path, wait_ms, after)
            self._session_id = stat.ephemeral_owner
            self._own_sessions.add(stat.ephemeral_owner)
            self._epoch = stat.czxid
            self._is_seen = False
        self._made.set()
        self._woken.set()
        logger.info("broker %d is registered with epoch %d", self._broker_id, stat.czxid)
        if self._on_epoch is not None:
            self._on_epoch(stat.czxid)
        return stat.czxid

    async def is_at_home(self) -> bool:
        """True if the tree has the node of this broker's cluster now, or this broker has no cluster yet."""
        if self._cluster_id is None:
            return True
        node = await get_or_none(self._tree, znodes.CLUSTER_ID)
        return node is not None and _cluster_id(node.data) == self._cluster_id

    async def at_home(self) -> None:
        """Returns when the tree has the node of this broker's cluster. Where that is gone, somebody has emptied
        ZooKeeper, or it has lost its data: that removes no topic, and a cluster that begins anew in such a tree would
        take writes which are gone when its data are restored. Raises SessionExpired.
        """
        is_told = False
        while self._cluster_id is not None:
            node = await get_or_none(self._tree, znodes.CLUSTER_ID)
            found = None if node is None else _cluster_id(node.data)
            if found == self._cluster_id:
                if is_told:
                    logger.warning("the tree is that of cluster %s again", found)
                return
            changed = trio.Event()

            def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            stat = await self._tree.exists(znodes.CLUSTER_ID, wake)
            if (None if stat is None else stat.mzxid) != (None if node is None else node.stat.mzxid):
                continue
            if not is_told:
                message = (
                    "%s: this broker belongs to cluster %s, and serves on without the tree until that has it again: "
                    "restore ZooKeeper's data, or stop the broker and see zookeeper.connect"
                )
                what = "the tree has no cluster" if node is None else f"the tree is that of another cluster, {found}"
                logger.error(message, what, self._cluster_id)
                is_told = True
            await changed.wait()

    async def watch(self, lost: Callable[[], Awaitable[None]]) -> None:
        """Registers again whenever the registration is removed while the session lives, and when `renew` asks for it,
        until cancelled. `lost` is called before a registration that was removed is made again: others may lead what
        this broker leads. The end of a session is not seen to here.

        Raises AlreadyRegistered as `register` does.
        """
        stop_listening = self._tree.listen(self._heard)
        try:
            await self._watch(lost)
        finally:
            stop_listening()

    def _heard(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            self.doubt()

    def doubt(self) -> None:
        """The registration may be gone: it is looked at before it is `is_seen` again."""
        self._silences += 1
        self._is_seen = False
        self._woken.set()

    async def _watch(self, lost: Callable[[], Awaitable[None]]) -> None:
        path = znodes.broker_path(self._broker_id)
        while True:
            changed = self._woken = trio.Event()

            def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                changed.set()

            await self._tree.wait_connected()
            with contextlib.suppress(SessionExpired):
                asked, silences = self._epoch if self.is_current else None, self._silences
                stat = await self._tree.exists(path, wake)
                self._is_seen = silences == self._silences and stat is not None and stat.czxid == self._epoch
                if is_lost(asked, self._epoch, None if stat is None else stat.czxid) and self.is_current:
                    await self.at_home()
                    if asked != self._epoch or not self.is_current:
                        continue
                    what = "it stops anyway" if self._is_over else "it lives: it registers again"
                    logger.warning("broker %d: its registration was removed, and %s", self._broker_id, what)
                    self._has_resigned = True
                    await lost()
                    # A registration that another task made meanwhile is from before the last leader has resigned.
                    stat = await self._tree.exists(path)
                    await self.register(after=-1 if stat is None else stat.czxid)
                    continue
                if self.is_current and self._renewed == self._epoch:
                    await self.register(after=self._epoch)
                    continue
                await changed.wait()

    def stop(self) -> None:
        """From now on no registration is made: whoever would make one waits until cancelled. A registration that is
        there stays until the session ends.

        A broker that closes its listeners seems to be gone, and is, to all who see it. If it registered again, its
        neighbours would find it gone once more, at the end of its session.
        """
        self._is_over = True

    def renew(self, epoch: int, controller_epoch: int) -> None:
        """Has the registration with this epoch (-1: the one that there is) replaced, so that the controller elects
        anew: it takes this broker for the leader of partitions in a leader epoch in which the broker has resigned.

        Once for each controller: one that elects nobody then does not do so after a second time either.
        """
        if controller_epoch > self._renewed_for:
            message = "broker %d registers again, for controller epoch %d takes it for a leader where it has resigned"
            logger.warning(message, self._broker_id, controller_epoch)
            self._renewed_for, self._renewed = controller_epoch, self._epoch if epoch < 0 else epoch
            self._woken.set()

    async def update(self) -> None:
        """Write again what the broker says of itself: its endpoints changed."""
        await self._tree.set(znodes.broker_path(self._broker_id), self._content())

    def _content(self) -> bytes:
        return msgspec.structs.replace(self._describe(), has_resigned=self._has_resigned).encode()

    async def _make(self, path: str, *before: Operation) -> Stat | None:
        """Makes the node, after other operations. None if it is not known whether it was made, if a node is in the way,
        and if a condition of the other operations does not hold.
        """
        if self._is_over:
            await trio.sleep_forever()
        try:
            # The last operation is there for its Stat, which a creation does not give.
            made: list[Operation] = [Create(path, b"", ephemeral=True), Set(path, self._content(), 0)]
            *_, stat = await self._tree.multi([*before, *made])
        except ConnectionLoss:
            await self._tree.wait_connected()
            return None
        except NodeExists:
            return None
        except (NoNode, BadVersion):
            if not before:
                raise
            return None
        of_node: Stat = stat
        return of_node

    async def _try(self, path: str, wait_ms: int, after: int) -> Stat | None:
        made = await self._make(path)
        if made is not None:
            return made
        node = await get_or_none(self._tree, path)
        if node is None:
            return None
        owner = node.stat.ephemeral_owner
        if owner == self._tree.session_id:
            if node.stat.czxid > after:
                return node.stat
            # At once: nobody sees this broker gone.
            return await self._make(path, Delete(path, node.stat.version))
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

    async def _until_addresses_are_free(self, wait_ms: int) -> None:
        found = await holder(self._tree, self._broker_id, self._describe().endpoints)
        if found is None:
            return
        message = "%s, as this broker does: waiting for the end of that session, %.0f s at most"
        logger.warning(message, found, wait_ms / 1000)
        with trio.move_on_after(wait_ms / 1000):
            while found is not None:
                changed = trio.Event()

                def wake(_: WatchEvent, changed: trio.Event = changed) -> None:
                    changed.set()

                stat = await self._tree.exists(found.path, wake)
                if stat is not None and stat.mzxid == found.mzxid:
                    await changed.wait()
                found = await holder(self._tree, self._broker_id, self._describe().endpoints)
        if found is not None:
            raise AlreadyRegistered(
                found.path,
                f"{found}, as broker {self._broker_id} does. Stop it, or give one of them another address "
                "(advertised.listeners)",
            )

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


def _cluster_id(data: bytes) -> str | None:
    """None for a node that nobody understands."""
    try:
        return znodes.decode_cluster_id(data)
    except MalformedNode:
        return None


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
