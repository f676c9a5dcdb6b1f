"""The assignor `range`: per topic, neighbouring partitions to the same member (Kafka's RangeAssignor)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.assignors.members import ordered
from ottla.client.consumer_protocol import Subscription
from ottla.kafka import TopicPartition


def assign_ranges(
    partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[TopicPartition]]:
    """Cuts each topic's partitions into ranges for those who read it; the first members take the remainder."""
    assignment: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted({topic for each in subscriptions.values() for topic in each.topics}):
        count = partitions.get(topic)
        if not count:
            continue
        readers = ordered((member for member, each in subscriptions.items() if topic in each.topics), subscriptions)
        share, remainder = divmod(count, len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + share + (index < remainder)
            assignment[member] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return assignment
