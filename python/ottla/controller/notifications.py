"""Notifications that brokers leave in the tree: of ISRs that leaders wrote, and of log directories that failed."""

from __future__ import annotations

from ottla.controller.channels import Channels
from ottla.controller.events import Event, Events, IsrChangeNotification, LogDirEventNotification
from ottla.controller.left_out import LeftOut
from ottla.controller.model import Cluster
from ottla.controller.moves import Moves
from ottla.controller.store import FencedTree
from ottla.coordination import znodes
from ottla.coordination.tree import Node
from ottla.coordination.znodes import MalformedNode
from ottla.kafka import TopicPartition
from ottla.slices import in_slices


class Notifications:
    """Reads notifications, acts on them, and then removes them."""

    def __init__(
        self,
        cluster: Cluster,
        store: FencedTree,
        channels: Channels,
        moves: Moves,
        events: Events,
        left_out: LeftOut,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._channels = channels
        self._moves = moves
        self._events = events
        self._left_out = left_out

    async def discard(self) -> None:
        """Removes all, unread: a new controller reads from the states themselves what they would tell."""
        await self._store.delete_nodes(await self._paths(znodes.ISR_CHANGES, IsrChangeNotification()))
        await self._store.delete_nodes(await self._paths(znodes.LOG_DIR_EVENTS, LogDirEventNotification()))

    async def isr_changes(self) -> None:
        """Leaders wrote new ISRs into the tree; everybody's metadata follows."""
        paths = await self._paths(znodes.ISR_CHANGES, IsrChangeNotification())
        changed: dict[TopicPartition, None] = {}
        for path, node in await self._read(paths):
            try:
                changed.update(dict.fromkeys(znodes.decode_partitions(path, node.data)))
            except MalformedNode as error:
                self._left_out.say("a notification", error)
        known = [name for name in changed if self._cluster.get(name) is not None]
        batch = self._channels.batch()
        states = await self._store.read_states(known)
        async for name, stored in in_slices(states.items()):
            self._cluster.set_state(name, stored.state, stored.version)
            batch.metadata_of(name)
        if known:
            batch.metadata_to(self._cluster.brokers)
        await self._channels.send(batch)
        await self._store.delete_nodes(paths)
        await self._moves.advance(known)

    async def log_dir_events(self) -> None:
        """Brokers lost a log directory: ask them, with the roles they have, which replicas still work."""
        paths = await self._paths(znodes.LOG_DIR_EVENTS, LogDirEventNotification())
        brokers = set()
        for path, node in await self._read(paths):
            try:
                brokers.add(znodes.decode_log_dir_event(path, node.data))
            except MalformedNode as error:
                self._left_out.say("a notification", error)
        batch = self._channels.batch()
        async for name in in_slices(self._cluster.on_brokers(brokers)):
            batch.roles_of(name, only=brokers)
        await self._channels.send(batch)
        await self._store.delete_nodes(paths)

    async def _paths(self, parent: str, event: Event) -> list[str]:
        names = await self._store.tree.children(parent, self._events.watch(event))
        return [f"{parent}/{name}" for name in names]

    async def _read(self, paths: list[str]) -> list[tuple[str, Node]]:
        nodes = await self._store.tree.get_many(paths)
        return [(path, node) for path, node in zip(paths, nodes, strict=True) if node is not None]
