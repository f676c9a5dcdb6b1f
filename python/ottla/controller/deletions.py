"""The deletion of topics, from the mark in the tree to the end of their nodes (Kafka's TopicDeletionManager). Which
replicas of a topic are left is in `deletion`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from ottla.controller.channels import Channels
from ottla.controller.deletion import Deletion
from ottla.controller.events import Events, TopicDeletion
from ottla.controller.model import Cluster
from ottla.controller.moves import Moves
from ottla.controller.requests import ControlRequest
from ottla.controller.store import FencedTree
from ottla.controller.topics import Topics
from ottla.coordination import znodes
from ottla.kafka import TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger("ottla.controller.controller")


class Deletions:
    """All deletions; which there are is in `Cluster.deletions`. Without `is_enabled` (`delete.topic.enable`) marks are
    removed, and nothing is deleted.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: FencedTree,
        channels: Channels,
        moves: Moves,
        topics: Topics,
        events: Events,
        *,
        is_enabled: bool,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._channels = channels
        self._moves = moves
        self._topics = topics
        self._events = events
        self._is_enabled = is_enabled

    async def look(self) -> None:
        """Topics may have been marked."""
        marked = await self._marked()
        if not self._is_enabled:
            await self._store.delete_nodes([znodes.delete_topic_path(topic) for topic in marked])
            return
        # A topic made just before it was marked may not have been looked at yet.
        if any(topic not in self._cluster.topics for topic in marked):
            await self._topics.look()
        unknown = [topic for topic in marked if topic not in self._cluster.topics]
        await self._store.delete_nodes([znodes.delete_topic_path(topic) for topic in unknown])
        await self._begin(marked)
        await self.advance()
        for deletion in list(self._cluster.deletions.values()):
            await self._complete(deletion)

    async def begin_marked(self) -> None:
        """Takes the topics that are marked from everybody's metadata, and asks nobody to delete anything yet."""
        await self._begin(await self._marked())

    async def advance(self) -> None:
        """Asks for the replicas that nobody was asked for yet, of brokers that live."""
        batch = self._channels.batch()
        for deletion in self._cluster.deletions.values():
            for broker, partitions in deletion.next_requests(self._cluster.brokers).items():
                for partition in partitions:
                    batch.delete(TopicPartition(deletion.topic, partition), broker)
        await self._channels.send(batch)

    async def answered(self, request: ControlRequest, *, is_refused: bool, failed: Collection[tuple[str, int]]) -> None:
        """A broker has answered StopReplica. It `failed` to delete these partitions, or all if it refused it all."""
        broker = request.broker
        for topic_state in request.message.topic_states:
            deletion = self._cluster.deletions.get(topic_state.topic_name)
            if deletion is None:
                continue
            asked = [state.partition_index for state in topic_state.partition_states if state.delete_partition]
            refused = [partition for partition in asked if is_refused or (topic_state.topic_name, partition) in failed]
            if refused:
                logger.warning("broker %d could not delete %s of %s", broker, refused, deletion.topic)
            deletion.failed(broker, refused)
            deletion.deleted(broker, set(asked) - set(refused))
            await self._complete(deletion)

    async def _marked(self) -> list[str]:
        return await self._store.tree.children(znodes.DELETE_TOPICS, self._events.watch(TopicDeletion()))

    async def _begin(self, marked: Iterable[str]) -> None:
        cluster = self._cluster
        fresh = [topic for topic in marked if self._topics.is_known(topic) and not cluster.is_deleting(topic)]
        if not fresh or not self._is_enabled:
            return
        logger.info("deleting topics %s", fresh)
        batch = self._channels.batch()
        async for name in in_slices(cluster.partitions_of(fresh)):
            partition = cluster.get(name)
            assert partition is not None
            batch.metadata(name, partition, deleted=True)
        batch.metadata_to(cluster.brokers)
        await self._channels.send(batch)
        for topic in fresh:
            replicas = {number: partition.replicas for number, partition in cluster.topics[topic].items()}
            cluster.deletions[topic] = Deletion(topic, replicas, cluster.endings.of_topic(topic))
            await self._moves.forget(topic)

    async def _complete(self, deletion: Deletion) -> None:
        if not deletion.is_complete:
            return
        await self._store.delete_topic(deletion.topic, self._cluster.born[deletion.topic])
        await self._topics.forget(deletion.topic)
        logger.info("topic %s is deleted", deletion.topic)
