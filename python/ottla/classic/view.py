"""A member's view of its group and cluster, from which it computes who owns what: read from ZooKeeper, and watched.

Nodes that make no sense are left out, and each is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from ottla.classic.config import ConsumerConfig
from ottla.classic.discovery import IDS, TOPICS
from ottla.classic.offset_stores import SHOWN_BYTES_MAX
from ottla.classic.registry import MalformedRegistration, Subscription, ids_path, owner_path
from ottla.coordination.tree import NoNode, Tree, Watch, get_or_none
from ottla.coordination.znodes import MalformedNode, TopicAssignment
from ottla.kafka import TopicPartition

logger = logging.getLogger(__name__)


class View(NamedTuple):
    """The threads of a group and the partitions of its cluster, by topic."""

    threads: dict[str, list[str]]
    partitions: dict[str, list[int]]


class Views:
    """Remembers what was said already."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._left_out: set[str] = set()

    async def look(self, tree: Tree, watch: Watch) -> View:
        """Reads the group and the cluster, and has `watch` called when something of it changes. Raises TreeError."""
        config = self._config
        await watched_children(tree, IDS, watch)
        topics = await watched_children(tree, TOPICS, watch)
        ids = await watched_children(tree, ids_path(config.group_id), watch)
        threads: dict[str, list[str]] = {}
        nodes = await tree.get_many([f"{ids_path(config.group_id)}/{each}" for each in ids])
        for each, node in zip(ids, nodes, strict=True):
            if node is None:
                continue
            try:
                subscription = Subscription.decode(node.data)
            except MalformedRegistration as problem:
                path = f"{ids_path(config.group_id)}/{each}"
                # One of 0.7 is a member all the same, to those of its kind.
                advice = "" if node.stat.ephemeral_owner else ". It goes with nobody's session: delete it"
                self._leave_out(f"{path} is left out: {problem}{advice}")
                continue
            found = subscription.threads(each, topics, exclude_internal=config.exclude_internal_topics)
            for topic, names in found.items():
                threads.setdefault(topic, []).extend(names)
        asked = sorted(set(threads) & set(topics))
        paths = [f"{TOPICS}/{topic}" for topic in asked]
        partitions: dict[str, list[int]] = {}
        found_topics = await tree.get_many(paths, [watch] * len(paths))
        for topic, path, node in zip(asked, paths, found_topics, strict=True):
            if node is None:
                continue
            try:
                partitions[topic] = sorted(TopicAssignment.decode(path, node.data).partitions)
            except MalformedNode as problem:
                self._leave_out(f"topic '{topic}' is left out: {problem}")
        return View(threads, partitions)

    def _leave_out(self, what: str) -> None:
        """Says once that something makes no sense."""
        if what not in self._left_out:
            self._left_out.add(what)
            logger.warning("group '%s': %s", self._config.group_id, what)


async def holder(tree: Tree, group: str, places: Iterable[TopicPartition]) -> str:
    """Says who owns the first of these partitions that has an owner. Raises TreeError."""
    for place in places:
        path = owner_path(group, place)
        if (node := await get_or_none(tree, path)) is not None:
            name = node.data[:SHOWN_BYTES_MAX].decode(errors="backslashreplace")
            if not node.stat.ephemeral_owner:
                return f"{path} names {name!r}, and goes with nobody's session: delete that node"
            return f"{name!r} does not give up {place}; stop it, or wait longer (rebalance.max.retries)"
    return "others do not give them up"


async def watched_children(tree: Tree, path: str, watch: Watch) -> list[str]:
    """A node's children; of one that is not there none, and its coming is watched."""
    while True:
        try:
            return await tree.children(path, watch)
        except NoNode:
            if await tree.exists(path, watch) is None:
                return []
