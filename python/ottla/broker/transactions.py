"""The transaction coordinator in this broker: what it needs to know of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.internal_topics import transaction_state_topic
from ottla.coordination import znodes
from ottla.coordination.tree import get_or_none
from ottla.coordination.znodes import TopicAssignment
from ottla.kafka import NO_LEADER
from ottla.transaction.service import Transactions
from ottla.transaction.transaction import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def transactions(broker: Broker) -> Transactions:
    """The coordinator of the transactional ids that fall to this broker; its `run` is yet to be started."""
    return Transactions(
        transaction_state_topic(broker),
        broker.config,
        Directory(broker),
        broker.producer_ids.next,
        client_id=f"broker-{broker.id}-txn-marker-sender",
    )


class Directory:
    """Where partitions and brokers are, by this broker's metadata, and in doubt by the tree."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._listener = broker.config.inter_broker_listener

    def leader(self, partition: Partition) -> int | None:
        topic, index = partition
        cache = self._broker.metadata
        known = cache.topics.get(topic, {}).get(index)
        if known is None:
            return None
        return known.leader if known.leader in cache.brokers else NO_LEADER

    def address(self, broker: int) -> tuple[str, int] | None:
        known = self._broker.metadata.brokers.get(broker)
        return None if known is None else known.endpoints.get(self._listener)

    def is_led_elsewhere(self, partition: Partition) -> bool:
        return self.leader(partition) not in (None, NO_LEADER, self._broker.id)

    async def exists(self, partition: Partition) -> bool:
        topic, index = partition
        path = znodes.topic_path(topic)
        node = await get_or_none(self._broker.tree, path)
        return node is not None and index in TopicAssignment.decode(path, node.data).partitions
