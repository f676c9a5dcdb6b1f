"""Who reads what: each member computes it alone from the same view, in Java's orders and with Java's hashes.

Source: kafka/consumer/PartitionAssignor.scala.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ottla.classic.errors import ConsumerRebalanceFailed
from ottla.classic.java import hash_code, string_order
from ottla.kafka import TopicPartition

Threads = Mapping[str, Sequence[str]]
"""The group's threads by topic."""

Partitions = Mapping[str, Sequence[int]]
"""The numbers of each topic's partitions."""


def range_assignment(threads: Threads, partitions: Partitions) -> dict[TopicPartition, str]:
    """Topic by topic: threads in the order of their names take neighbouring partitions, the first ones one more."""
    found: dict[TopicPartition, str] = {}
    for topic, of_topic in threads.items():
        names = sorted(of_topic, key=string_order)
        numbers = sorted(partitions.get(topic, ()))
        each, more = divmod(len(numbers), len(names))
        for position, name in enumerate(names):
            start = each * position + min(position, more)
            for number in numbers[start : start + each + (position < more)]:
                found[TopicPartition(topic, number)] = name
    return found


def roundrobin_assignment(threads: Threads, partitions: Partitions) -> dict[TopicPartition, str]:
    """All partitions in the order of their names' hashes, to the threads in turn.

    Raises:
        ConsumerRebalanceFailed: the members do not read the same topics with the same number of streams each.
    """
    if not threads:
        return {}
    (first, names), *others = ((topic, set(of_topic)) for topic, of_topic in sorted(threads.items()))
    for topic, of_topic in others:
        if of_topic != names:
            raise ConsumerRebalanceFailed(
                f"roundrobin needs members of like subscriptions: '{first}' and '{topic}' have different threads"
            )
    places = sorted(TopicPartition(topic, number) for topic in threads for number in partitions.get(topic, ()))
    places.sort(key=lambda place: hash_code(f"[{place.topic},{place.partition}]"))
    turns = itertools.cycle(sorted(names, key=string_order))
    return dict(zip(places, turns, strict=False))


STRATEGIES = {"range": range_assignment, "roundrobin": roundrobin_assignment}
