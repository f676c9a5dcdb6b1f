"""Which brokers get a new partition's replicas: Kafka's placement (`AdminUtils.assignReplicasToBrokers`, KIP-36).

First replicas go round the brokers from a random one, so that leaders are even; the others follow at a distance that
grows with every round, so that the partitions one broker leads have their other replicas on different brokers. Where
every broker names a rack, the round goes through the racks in turn and a partition's replicas are in different racks as
far as they last.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from ottla.errors import InvalidPartitions, InvalidReplicationFactor

Assignment = dict[int, tuple[int, ...]]
"""Replicas by partition number, the preferred leader first."""


def assign(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    first_partition: int = 0,
    start: int | None = None,
) -> Assignment:
    """Place `partitions` partitions, numbered from `first_partition`, on the brokers that `racks` names.

    `start` fixes the random start: an index into the ordered brokers. Racks are looked at only if every broker has
    one. Raises InvalidPartitions and InvalidReplicationFactor.
    """
    if partitions <= 0:
        raise InvalidPartitions("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise InvalidReplicationFactor(
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        )
    by_rack = {broker: rack for broker, rack in racks.items() if rack is not None}
    aware = len(by_rack) == len(racks)
    brokers = _alternating(by_rack) if aware else sorted(racks)
    count = len(brokers)
    begin = random.randrange(count) if start is None else start
    shift = random.randrange(count) if start is None else start
    placed: Assignment = {}
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + begin) % count
        if aware:
            placed[number] = _spread_over_racks(brokers, by_rack, first, shift, replication_factor)
        else:
            followers = (brokers[_follower(first, shift + k, count)] for k in range(replication_factor - 1))
            placed[number] = (brokers[first], *followers)
    return placed


def _follower(first: int, shift: int, count: int) -> int:
    """The index at a distance of 1 to count - 1 from the first replica's."""
    return (first + 1 + shift % (count - 1)) % count


def _spread_over_racks(
    brokers: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    chosen = [brokers[first]]
    used_racks = {racks[brokers[first]]}
    step = 0
    while len(chosen) < replication_factor:
        broker = brokers[_follower(first, shift * rack_count + step, len(brokers))]
        step += 1
        # A rack comes again only when each has one; a broker never.
        if broker not in chosen and (racks[broker] not in used_racks or len(used_racks) == rack_count):
            chosen.append(broker)
            used_racks.add(racks[broker])
    return tuple(chosen)


def _alternating(racks: Mapping[int, str]) -> list[int]:
    """All brokers, one of each rack in turn."""
    queues: dict[str, list[int]] = {}
    for broker in sorted(racks):
        queues.setdefault(racks[broker], []).append(broker)
    ordered: list[int] = []
    longest = max(map(len, queues.values()))
    for place in range(longest):
        ordered += [queue[place] for _, queue in sorted(queues.items()) if place < len(queue)]
    return ordered
