"""Copies of replicas held back to a rate (KIP-73): which replicas, by settings of their topics, and how many bytes a
second, by settings of the brokers.

A throttle that is left behind also holds back replicas that fall behind later, for instance after a restart. So whoever
sets one takes it back: `remove` does when nothing of it moves any more. Like Kafka's tool, it knows no other use of
these settings and removes what it finds in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from ottla.client.admin import Admin
from ottla.client.cluster_admin import ClusterAdmin
from ottla.errors import BrokerNotAvailable, UnknownTopicOrPartition
from ottla.kafka import BROKER_RESOURCE, TopicPartition

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
REPLICAS = (LEADERS, FOLLOWERS)
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

_OF_TOPIC, _OF_BROKER = 1, 2
"""DescribeConfigs' numbers for values of a topic's own, and of a broker's that were set while it ran."""


def throttled_replicas(
    before: Mapping[TopicPartition, Sequence[int]], after: Mapping[TopicPartition, Sequence[int]]
) -> dict[str, dict[str, set[str]]]:
    """By topic and setting, the replicas `PARTITION:BROKER` that a move copies: from any that the partition has, since
    each may come to lead, to those that it gets. Nothing for a partition that gets none.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for name, target in after.items():
        if adding := set(target) - set(before[name]):
            of_topic = found.setdefault(name.topic, {LEADERS: set(), FOLLOWERS: set()})
            of_topic[LEADERS] |= {f"{name.partition}:{broker}" for broker in before[name]}
            of_topic[FOLLOWERS] |= {f"{name.partition}:{broker}" for broker in adding}
    return found


async def limit(
    admin: Admin,
    rate: int,
    before: Mapping[TopicPartition, Sequence[int]],
    after: Mapping[TopicPartition, Sequence[int]],
) -> None:
    """Holds back what a move copies to `rate` bytes a second, for each broker and side. Called before the move begins.
    What is held back already in these topics still is. Brokers that are gone copy nothing, and are left out.
    """
    for topic, settings in throttled_replicas(before, after).items():
        own = {each.name: each.value or "" for each in await admin.describe_settings(topic) if each.source == _OF_TOPIC}
        changes: dict[str, str | None] = {}
        for name, replicas in settings.items():
            if own.get(name) != "*":  # that is all of them
                changes[name] = ",".join(sorted({*filter(None, own.get(name, "").split(",")), *replicas}))
        await admin.alter_settings(topic, changes)
    for broker in sorted(involved({name: before[name] for name in after}, after)):
        with suppress(BrokerNotAvailable):
            await admin.alter_settings(str(broker), dict.fromkeys(RATES, str(rate)), resource=BROKER_RESOURCE)


def involved(*placements: Mapping[TopicPartition, Sequence[int]]) -> set[int]:
    """The brokers with replicas of these partitions, before and after."""
    return {broker for placement in placements for replicas in placement.values() for broker in replicas}


async def remove(admin: Admin, topics: Iterable[str], brokers: Collection[int] = ()) -> tuple[list[str], list[int]]:
    """Takes back what holds copies back: of those of the topics in which nothing moves now, and of all brokers once
    nothing moves in the cluster. Returns the topics and brokers of which something was removed.

    `brokers` are known to be held back. Of others that is asked, and a broker of Kafka may not know yet what was set a
    moment ago.
    """
    operator = ClusterAdmin(admin.cluster)
    moving = {name.topic for name in await operator.moves()}
    freed: list[str] = []
    for topic in sorted(set(topics) - moving):
        with suppress(UnknownTopicOrPartition):  # deleted meanwhile
            own = [each.name for each in await admin.describe_settings(topic) if each.source == _OF_TOPIC]
            if changes := dict.fromkeys(name for name in REPLICAS if name in own):
                await admin.alter_settings(topic, changes)
                freed.append(topic)
    return freed, [] if moving else await _remove_rates(admin, brokers)


async def _remove_rates(admin: Admin, known: Collection[int]) -> list[int]:
    freed: list[int] = []
    for broker in (await ClusterAdmin(admin.cluster).overview()).brokers:
        with suppress(BrokerNotAvailable):
            own: Collection[str] = RATES
            if broker not in known:
                found = await admin.describe_settings(str(broker), resource=BROKER_RESOURCE)
                own = {each.name for each in found if each.source == _OF_BROKER}
            if changes := dict.fromkeys(name for name in RATES if name in own):
                await admin.alter_settings(str(broker), changes, resource=BROKER_RESOURCE)
                freed.append(broker)
    return freed
