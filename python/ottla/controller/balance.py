"""Leadership goes back to the replicas that are named first.

When a broker has been away, others lead what it led before; without more they would go on when it is back. From time to
time the controller looks, broker by broker, at the partitions whose first replica is on it. Where others lead more of
them than is tolerated, those leave their leadership to it that can. The rules and the settings are Kafka's
(`KafkaController.checkAndTriggerAutoLeaderRebalance`): one move of replicas anywhere, and nothing is given back.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.controller import orders
from ottla.controller.term import Term
from ottla.errors import counted
from ottla.kafka import TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)

#: How long after its election a controller looks for the first time.
FIRST_LOOK_S = 5.0


class Balance(NamedTuple):
    """When leadership is given back."""

    #: How many per cent of the partitions that a broker is to lead may be led by others.
    tolerated_percentage: int
    interval_s: float
    first_look_s: float = FIRST_LOOK_S

    @classmethod
    def of(cls, config: BrokerConfig) -> Balance | None:
        """As a broker's settings say; None if leadership stays where it is."""
        if not config.get_bool("auto.leader.rebalance.enable"):
            return None
        return cls(
            config.get_int("leader.imbalance.per.broker.percentage"),
            config.get_int("leader.imbalance.check.interval.seconds"),
        )


async def give_back(term: Term, tolerated_percentage: int) -> None:
    """Makes first replicas leaders where they can be, for each broker of whose partitions others lead too many."""
    expected: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    is_moving = False
    async for name, partition in in_slices(term.cluster.partitions()):
        is_moving = is_moving or bool(partition.adding or partition.removing)
        if term.cluster.is_deleting(name.topic):
            continue
        first = partition.replicas[0]
        expected[first] = expected.get(first, 0) + 1
        if partition.state is not None and partition.state.leader != first:
            elsewhere.setdefault(first, []).append(name)
    if is_moving:
        return
    wanted: list[TopicPartition] = []
    for broker, names in elsewhere.items():
        if 100 * len(names) > tolerated_percentage * expected[broker]:
            wanted += [name async for name in in_slices(names) if _can_lead(term, name, broker)]
    if wanted:
        logger.info("giving first replicas the leadership of %s back", counted(len(wanted), "partition"))
        await orders.elect_leaders(term, wanted, unclean=False)


def _can_lead(term: Term, name: TopicPartition, broker: int) -> bool:
    partition = term.cluster.get(name)
    if partition is None or partition.state is None:
        return False
    return broker in partition.state.isr and term.cluster.is_online(name, broker)
