"""Elections of replicas that are not in sync (`unclean.leader.election.enable`): of which topics, and since when.

Such an election gives records up. So it waits until the session of a broker that was removed early would have ended: so
long that broker may come back and lead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import trio

from ottla.controller import decisions
from ottla.controller.events import Events, UncleanLeaderElectionEnable
from ottla.controller.left_out import LeftOut
from ottla.controller.model import Cluster
from ottla.coordination import znodes
from ottla.coordination.tree import Tree
from ottla.coordination.znodes import MalformedNode
from ottla.kafka import TopicPartition


class Unclean(msgspec.Struct):
    """A broker's setting, and its count, whether or not it is the active controller now."""

    #: `unclean.leader.election.enable` of the broker, for topics that do not say otherwise.
    is_allowed: bool
    #: How often this broker made a replica leader that was not in sync.
    total: int = 0


class UncleanElections:
    """Those of one controller's term. Without `session_s` they wait for nothing."""

    def __init__(
        self,
        cluster: Cluster,
        tree: Tree,
        events: Events,
        nursery: trio.Nursery,
        left_out: LeftOut,
        *,
        unclean: Unclean,
        session_s: float | None,
    ) -> None:
        self._cluster = cluster
        self._tree = tree
        self._events = events
        self._nursery = nursery
        self._left_out = left_out
        self._unclean = unclean
        self._session_s = session_s
        #: No replica that is not in sync leads before.
        self._from_s = -math.inf

    def put_off(self) -> None:
        """Until the session of a broker that is removed now would have ended."""
        if self._session_s is None:
            return
        self._from_s = trio.current_time() + self._session_s
        self._nursery.start_soon(self._events.put_at, UncleanLeaderElectionEnable(), self._from_s)

    def count(self, elected: int) -> None:
        self._unclean.total += elected

    async def topics_of(self, names: Iterable[TopicPartition]) -> set[str]:
        """Of the topics with partitions that only a replica not in sync could lead, those that allow it."""
        topics: set[str] = set()
        if trio.current_time() < self._from_s:
            return topics
        for name in names:
            partition = self._cluster.get(name)
            if partition is not None and partition.state is not None:
                online = self._cluster.online(name, partition.replicas)
                if decisions.needs_unclean_election(partition, online, self._cluster.leaving_with(name)):
                    topics.add(name.topic)
        return await self._allowed(sorted(topics))

    async def _allowed(self, topics: list[str]) -> set[str]:
        allowed = set()
        paths = {topic: znodes.config_path("topics", topic) for topic in topics}
        nodes = await self._tree.get_many(list(paths.values())) if paths else []
        for (topic, path), node in zip(paths.items(), nodes, strict=True):
            try:
                config = {} if node is None else znodes.decode_config(path, node.data)
            except MalformedNode as error:
                # Records are not given up because of a setting that may have forbidden it.
                self._left_out.say("an unclean election", error)
                continue
            setting = config.get("unclean.leader.election.enable", str(self._unclean.is_allowed))
            if setting.strip().lower() == "true":
                allowed.add(topic)
        return allowed
