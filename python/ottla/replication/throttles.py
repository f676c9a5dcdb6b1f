"""Throttled replication (KIP-73): replicas that are copied to other brokers leave room for everything else.

Topics say which of their replicas are throttled, brokers how many bytes a second may go for those of theirs: for what
they send as leaders, and for what they fetch as followers. `kafka-reassign-partitions.sh --throttle` sets all four
settings and takes them back. Both sides look before a partition is read or asked for, so that a request is never slow:
it is answered without the records of a partition that has to wait.

A replica that is in sync is never throttled, whatever the settings say, for producers wait for it. What it fetches
counts, though: the rate is for all that goes for throttled replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla._core import ReplicationQuota
from ottla.config.table import LONG_MAX

if TYPE_CHECKING:
    from ottla.config import BrokerConfig, TopicConfig
    from ottla.replication.partition import Partition

#: What is not used meanwhile is used then: looking more often makes more requests and nothing else.
LOOK_MS: Final = 100
#: No partition has a greater number; a list may name any.
PARTITION_MAX: Final = 2**31 - 1
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Throttles:
    """The quotas of one broker, for what it sends as a leader and for what it fetches as a follower."""

    def __init__(self, broker_id: int, config: BrokerConfig) -> None:
        samples = config.get_int("replication.quota.window.num")
        sample_s = config.get_int("replication.quota.window.size.seconds")
        self.leader = ReplicationQuota(samples, sample_s)
        self.follower = ReplicationQuota(samples, sample_s)
        self._sides = self.leader, self.follower
        self._broker_id = broker_id
        self.rates_changed(config)

    def rates_changed(self, config: BrokerConfig) -> None:
        """Takes the broker's `RATES`."""
        for quota, name in zip(self._sides, RATES, strict=True):
            rate = config.get_int(name)
            quota.limit(None if rate == LONG_MAX else rate)

    def topic_changed(self, topic: str, settings: TopicConfig) -> None:
        """Takes the lists of throttled replicas that a topic has."""
        for quota, name in zip(self._sides, REPLICAS, strict=True):
            quota.throttle(topic, throttled(settings.get_list(name), self._broker_id))

    @property
    def leader_look_ms(self) -> int:
        """How long a Fetch that is held back waits at most until it is looked again."""
        return max(LOOK_MS, self.leader.until_room_ms)

    def holds(self, partition: Partition, follower: int) -> bool:
        """Whether a follower gets no records of a partition that this broker leads now."""
        quota = self.leader
        return (
            quota.is_used
            and quota.is_throttled(partition.topic, partition.index)
            and follower not in partition.isr
            and quota.is_exceeded
        )


def throttled(replicas: Iterable[str], broker_id: int) -> set[int] | None:
    """The partitions of which this broker's replicas are throttled, by a topic's list of PARTITION:BROKER; None if all
    are.
    """
    pairs = [replica for replica in replicas if replica]
    if "*" in pairs:
        return None
    ours = (partition for partition, _, broker in (pair.partition(":") for pair in pairs) if int(broker) == broker_id)
    return {number for number in map(int, ours) if number <= PARTITION_MAX}
