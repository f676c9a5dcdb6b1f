"""The assignor `roundrobin`: all partitions one after the other to the members in turn (Kafka's RoundRobinAssignor)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.assignors.members import ordered
from ottla.client.consumer_protocol import Subscription
from ottla.kafka import TopicPartition


def assign_in_turns(
    partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    """Gives each partition to the next member in turn that reads its topic."""
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    members = ordered(subscriptions, subscriptions)
    turn = 0
    for topic in sorted({topic for each in subscriptions.values() for topic in each.topics}):
        for number in range(partitions.get(topic, 0)):
            while topic not in subscriptions[members[turn]].topics:
                turn = (turn + 1) % len(members)
            assignment[members[turn]].append(TopicPartition(topic, number))
            turn = (turn + 1) % len(members)
    return assignment
