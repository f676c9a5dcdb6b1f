"""Topics that come, get more partitions, and are gone from the tree without having been deleted (`missing`)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import trio

from ottla.controller.batches import overlapping
from ottla.controller.channels import Channels
from ottla.controller.events import Events, PartitionModifications, TopicChange, TopicDeletion, TopicsMissing
from ottla.controller.left_out import LeftOut
from ottla.controller.missing import Missing
from ottla.controller.model import Cluster
from ottla.controller.moves import Moves
from ottla.controller.names import check_name
from ottla.controller.partition_states import PartitionStates
from ottla.controller.store import FencedTree
from ottla.coordination import znodes
from ottla.coordination.tree import NoNode
from ottla.coordination.znodes import MalformedNode, TopicAssignment
from ottla.errors import InvalidTopic, counted
from ottla.kafka import EPOCH_DURING_DELETE, TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger("ottla.controller.controller")

#: Topics that are read from the tree with one request: with a handful of partitions each, they take some 40 us.
TOPICS_AT_ONCE = 100


class FoundTopic(NamedTuple):
    """A topic as the tree has it. A node with another `czxid` is another topic."""

    assignment: TopicAssignment
    czxid: int


class Topics:
    """The topics of the cluster. `is_at_home` tells whether the tree is that of this cluster."""

    def __init__(
        self,
        cluster: Cluster,
        store: FencedTree,
        states: PartitionStates,
        channels: Channels,
        moves: Moves,
        events: Events,
        nursery: trio.Nursery,
        left_out: LeftOut,
        is_at_home: Callable[[], Awaitable[bool]],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._states = states
        self._channels = channels
        self._moves = moves
        self._events = events
        self._nursery = nursery
        self._left_out = left_out
        self._is_at_home = is_at_home
        self._missing = Missing()
        #: `TopicsMissing` is about to come.
        self._waits_for_missing = False

    def is_known(self, topic: str) -> bool:
        """The topic has a node, as far as is known."""
        return topic in self._cluster.topics and topic not in self._missing

    async def read_all(self) -> None:
        """Takes over all topics of the tree, and tells nobody."""
        topics = await self._store.tree.children(znodes.TOPICS, self._events.watch(TopicChange()))
        async for topic, found in in_slices((await self._read(topics)).items()):
            self._cluster.assign(topic, found.assignment)
            self._cluster.born[topic] = found.czxid

    async def look(self, *, again: bool = False) -> None:
        """Topics came or went. With `again`, those that are known may have changed as well."""
        names = await self._store.tree.children(znodes.TOPICS, self._events.watch(TopicChange()))
        known, there = self._cluster.topics, set[str]()
        changed: list[str] = []
        missing: list[str] = []
        async for topic in in_slices(names):
            there.add(topic)
            if again or topic not in known or topic in self._missing:
                changed.append(topic)
        async for topic in in_slices(list(known)):
            if topic not in there and topic not in self._missing:
                missing.append(topic)
        if missing:
            self._miss(missing)
        await self._look_at(changed)

    async def look_at(self, topic: str) -> None:
        """Partitions were added, or another topic is in its place. One that is new altogether is another event."""
        if topic in self._cluster.topics:
            await self._look_at([topic])

    async def look_for_missing(self) -> None:
        """For a while no further topic was missed: those that are missing were removed, if the tree is ours."""
        self._waits_for_missing = False
        if not self._missing:
            return
        if not await self._is_at_home():
            self._missing.wait_on(trio.current_time())
            self._wait_for_missing()
            return
        there = set(await self._store.tree.children(znodes.TOPICS, self._events.watch(TopicChange())))
        topics = self._missing.take()
        await self._removed([topic for topic in topics if topic not in there])
        await self._look_at([topic for topic in topics if topic in there])

    async def forget(self, topic: str) -> None:
        """The topic is gone from the tree."""
        await self._moves.forget(topic)
        cluster = self._cluster
        for name in cluster.partitions_of([topic]):
            cluster.untold.pop(name, None)
            for replicas in (*cluster.failed_replicas.values(), *cluster.unheard.values()):
                replicas.discard(name)
        cluster.topics.pop(topic, None)
        cluster.born.pop(topic, None)
        self._missing.found((topic,))
        cluster.deletions.pop(topic, None)

    async def _read(self, topics: Sequence[str]) -> dict[str, FoundTopic]:
        """Those that are there and can be understood, each watched from now on."""
        assignments: dict[str, FoundTopic] = {}

        async def read(piece: Sequence[str]) -> None:
            paths = [znodes.topic_path(topic) for topic in piece]
            watches = [self._events.watch(PartitionModifications(topic)) for topic in piece]
            nodes = await self._store.tree.get_many(paths, watches)
            for topic, path, node in zip(piece, paths, nodes, strict=True):
                if node is None:
                    continue
                try:
                    check_name(topic)
                    assignments[topic] = FoundTopic(TopicAssignment.decode(path, node.data), node.stat.czxid)
                except (MalformedNode, InvalidTopic) as error:
                    self._left_out.say("a topic", error)

        await overlapping(read, topics, at_most=TOPICS_AT_ONCE)
        return assignments

    async def _look_at(self, topics: Sequence[str]) -> None:
        found = await self._read(topics)
        born = self._cluster.born
        others = [topic for topic, its in found.items() if born.get(topic, its.czxid) != its.czxid]
        if others and not await self._is_at_home():
            for topic in others:
                del found[topic]
            self._miss(others)
            others = []
        await self._removed(others)
        self._missing.found(found)
        born.update((topic, its.czxid) for topic, its in found.items())
        await self._assigned({topic: its.assignment for topic, its in found.items()})

    def _miss(self, topics: Sequence[str]) -> None:
        self._missing.miss(topics, trio.current_time())
        self._wait_for_missing()

    def _wait_for_missing(self) -> None:
        if self._waits_for_missing:
            return
        self._waits_for_missing = True

        async def rest() -> None:
            while rest_s := self._missing.rest_s(trio.current_time()):
                await trio.sleep(rest_s)
            self._events.put(TopicsMissing())

        self._nursery.start_soon(rest)

    async def _removed(self, topics: Sequence[str]) -> None:
        """Topics were removed from the tree by hand. What has one of the names now is another topic (see `missing`)."""
        if not topics:
            return
        cluster, batch = self._cluster, self._channels.batch()
        async for name in in_slices(cluster.partitions_of(topics)):
            partition, ending = cluster.get(name), cluster.endings.get(name)
            assert partition is not None
            batch.metadata(name, partition, deleted=True)
            if not cluster.is_deleting(name.topic):
                batch.stop(name, {*partition.replicas, *(ending.leaving if ending else ())}, EPOCH_DURING_DELETE)
        batch.metadata_to(cluster.brokers)
        await self._channels.send(batch)
        for topic in topics:
            if cluster.is_deleting(topic):
                logger.warning("topic %s was removed from the tree while it was deleted", topic, extra={"topic": topic})
                await self._store.delete_topic(topic, cluster.born[topic])
                # There may be a mark for the other topic.
                self._events.put(TopicDeletion())
            else:
                message = (
                    "topic %s was removed from the tree without being deleted: its replicas are stopped, and brokers "
                    "keep their folders (%s-N in log.dirs) with the records. Remove the folders if nobody needs them. "
                    "Topics are deleted with `ottla topic delete` or kafka-topics --delete"
                )
                logger.warning(message, topic, topic, extra={"topic": topic})
            await self.forget(topic)

    async def _assigned(self, assignments: Mapping[str, TopicAssignment]) -> None:
        new = {}
        async for topic, assignment in in_slices(assignments.items()):
            if names := self._assign(topic, assignment):
                new[topic] = names
        try:
            await self._new_partitions([name for names in new.values() for name in names])
        except NoNode:
            # One that is gone again keeps none of the others back.
            for topic, names in new.items():
                try:
                    await self._new_partitions(names)
                except NoNode:
                    logger.warning("topic %s is gone again", topic)

    def _assign(self, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
        is_new = topic not in self._cluster.topics
        if self._cluster.is_deleting(topic):
            logger.warning("topic %s is being deleted, its new assignment is not looked at", topic)
            return []
        names = self._cluster.assign(topic, assignment)
        if is_new:
            logger.info("topic %s is new, with %s", topic, counted(len(names), "partition"), extra={"topic": topic})
        elif names:
            more = counted(len(names), "more partition")
            logger.info("topic %s has %s", topic, more, extra={"topic": topic})
        return names

    async def _new_partitions(self, names: list[TopicPartition]) -> None:
        """Raises NoNode if a topic is gone."""
        if names:
            await self._states.settle(names)
            await self._channels.tell_roles(names)
