"""The transaction coordinator in this broker: what it needs to know of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordination import znodes
from ottla.coordination.tree import get_or_none
from ottla.coordination.znodes import MalformedNode, TopicAssignment
from ottla.kafka import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.standing import Standing
    from ottla.coordination.tree import Tree


class Directory:
    """Where partitions and brokers are, by this broker's metadata, and in doubt by the tree.

    `listener` is the name of the one through which brokers reach each other.
    """

    def __init__(self, tree: Tree, broker_id: int, metadata: MetadataCache, listener: str, standing: Standing) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._metadata = metadata
        self._listener = listener
        self._standing = standing

    def leader(self, partition: TopicPartition) -> int | None:
        topic, index = partition
        cache = self._metadata
        known = cache.topics.get(topic, {}).get(index)
        if known is None:
            return None
        return known.leader if known.leader in cache.brokers else NO_LEADER

    def address(self, broker: int) -> tuple[str, int] | None:
        return self._metadata.address(broker, self._listener)

    def is_led_elsewhere(self, partition: TopicPartition) -> bool:
        return self.leader(partition) not in (None, NO_LEADER, self._broker_id)

    def may_be_replaced(self) -> bool:
        return self._standing.may_be_replaced()

    async def exists(self, partition: TopicPartition) -> bool:
        topic, index = partition
        path = znodes.topic_path(topic)
        node = await get_or_none(self._tree, path)
        try:
            return node is not None and index in TopicAssignment.decode(path, node.data).partitions
        except MalformedNode:
            # The node may have been damaged: a marker is kept rather than lost.
            return True
