"""The assignor `sticky` (KIP-54): as even as can be, and members keep what they had (Kafka's AbstractStickyAssignor).

A member tells in its subscription's user data what it last had, and in which generation. Claims of the newest
generation count; of older ones only where the newest says nothing (and not at all where all read the same topics).

In two places this is not Kafka 2.7's result. That release forgets what some members had where members read different
topics, since it reads their user data only once; and it leaves a partition with two members who both claim it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from struct import Struct
from typing import NamedTuple

from ottla.client.assignors.balance import balance
from ottla.client.assignors.java_order import hash_of_text, hash_order
from ottla.client.consumer_protocol import NO_GENERATION, Reader, Subscription, encode_partitions
from ottla.errors import InconsistentGroupProtocol
from ottla.kafka import TopicPartition

_GENERATION = Struct(">i")


class Owned(NamedTuple):
    """What a member says that it has. `generation` is None if it does not say since when."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


Assigned = dict[str, list[TopicPartition]]


def owned_as_user_data(partitions: Collection[TopicPartition], generation: int) -> bytes:
    """The previous assignment, as version 1 of Kafka's StickyAssignor writes it."""
    return encode_partitions(partitions) + _GENERATION.pack(generation)


def owned_of(subscription: Subscription) -> Owned:
    """The previous assignment in a subscription's user data; version 0 has no generation. What cannot be read is no
    claim.
    """
    if not subscription.user_data:
        return Owned((), None)
    reader = Reader(subscription.user_data, "user data")
    try:
        partitions = reader.partitions()
    except InconsistentGroupProtocol:
        return Owned((), NO_GENERATION)
    return Owned(partitions, reader.int32() if reader.rest >= _GENERATION.size else None)


def assign_stickily(partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assigned:
    """Shares partitions evenly, and moves as few as it can."""
    return assign_keeping(partitions, subscriptions, owned_of)


def assign_keeping(
    partitions: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    owned: Callable[[Subscription], Owned],
) -> Assigned:
    """The same for whatever way members tell what they have."""
    existing = {topic: count for topic, count in partitions.items() if count > 0}
    walked = hash_order(subscriptions, hash_of_text)
    if len({frozenset(each.topics) for each in subscriptions.values()}) == 1:
        return _share_same_topics(existing, _valid(walked, subscriptions, existing, owned))
    current, previous = _claims(walked, subscriptions, owned)
    return balance(existing, subscriptions, current, previous)


def _valid(
    walked: list[str],
    subscriptions: Mapping[str, Subscription],
    existing: Mapping[str, int],
    owned: Callable[[Subscription], Owned],
) -> Assigned:
    """What each member owns for sure: of the highest generation, or of none where none is told before it."""
    highest = NO_GENERATION
    valid: Assigned = {}
    current: list[str] = []
    for member in walked:
        claimed = owned(subscriptions[member])
        valid[member] = []
        is_known = claimed.generation is not None
        generation = NO_GENERATION if claimed.generation is None else claimed.generation
        if generation < highest or (not is_known and highest != NO_GENERATION):
            continue
        if is_known and generation > highest:
            for other in current:
                valid[other] = []
            current.clear()
            highest = generation
        current.append(member)
        valid[member] = [partition for partition in claimed.partitions if partition.topic in existing]
    return _without_doubles(valid)


def _without_doubles(valid: Assigned) -> Assigned:
    """Kafka 2.7 would leave a partition that two members claim with both of them (KAFKA-12984); later releases and this
    one believe neither.
    """
    claims: dict[TopicPartition, int] = {}
    for partitions in valid.values():
        for partition in partitions:
            claims[partition] = claims.get(partition, 0) + 1
    return {
        member: [partition for partition in partitions if claims[partition] == 1]
        for member, partitions in valid.items()
    }


def _share_same_topics(existing: Mapping[str, int], owned: Assigned) -> Assigned:
    """Where all members read the same topics: each keeps up to its share, and gets what is free up to its share."""
    unassigned = {
        TopicPartition(topic, number): None for topic in sorted(existing) for number in range(existing[topic])
    }
    least, remainder = divmod(len(unassigned), len(owned))
    most = least + (remainder > 0)
    assignment: Assigned = {}
    unfilled: list[str] = []
    with_most: list[str] = []
    with_least: list[str] = []
    for member in hash_order(owned, hash_of_text):
        kept = owned[member][:most]
        assignment[member] = list(kept)
        for partition in kept:
            unassigned.pop(partition, None)
        if len(owned[member]) < least:
            unfilled.append(member)
        else:
            if len(kept) == least:
                with_least.append(member)
            if len(kept) == most:
                with_most.append(member)
    unfilled.sort()
    free = list(unassigned)
    next_free = 0
    while unfilled and next_free < len(free):
        for member in list(unfilled):
            if next_free == len(free):
                break
            assignment[member].append(free[next_free])
            next_free += 1
            if len(assignment[member]) == least:
                with_least.append(member)
                unfilled.remove(member)
    # Nothing is free and members lack some: those who have the most give their first one.
    givers = iter(with_most)
    for member in unfilled:
        while len(assignment[member]) < least:
            assignment[member].append(assignment[next(givers)].pop(0))
        with_least.append(member)
    # Everybody has enough and some are free: one each, in the order in which members came to have the least.
    for partition, member in zip(free[next_free:], with_least, strict=False):
        assignment[member].append(partition)
    return assignment


def _claims(
    walked: list[str],
    subscriptions: Mapping[str, Subscription],
    owned: Callable[[Subscription], Owned],
) -> tuple[Assigned, dict[TopicPartition, str]]:
    """Who has each partition by the newest generation that claims it, and who had it before, by the next one."""
    claims: dict[TopicPartition, dict[int, str]] = {}
    for member in walked:
        partitions, generation = owned(subscriptions[member])
        for partition in partitions:
            by_generation = claims.setdefault(partition, {})
            if generation is None or generation not in by_generation:
                by_generation[NO_GENERATION if generation is None else generation] = member
    current: Assigned = {}
    previous: dict[TopicPartition, str] = {}
    for partition, by_generation in claims.items():
        newest, *older = sorted(by_generation, reverse=True)
        current.setdefault(by_generation[newest], []).append(partition)
        if older:
            previous[partition] = by_generation[older[0]]
    return current, previous
