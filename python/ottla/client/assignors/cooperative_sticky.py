"""The assignor `cooperative-sticky` (KIP-429): as `sticky`, but members go on reading while they rebalance (Kafka's
CooperativeStickyAssignor).

A partition that is to move is left out at first: its member gives it back, joins again, and the next assignment hands
it out. What members own stands in their subscriptions. Since Kafka 3.0 their user data tell the generation in which
they got it (KAFKA-12984); earlier members write none, and what they claim counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct

from ottla.client.assignors.sticky import Assigned, Owned, assign_keeping
from ottla.client.consumer_protocol import NO_GENERATION, Subscription
from ottla.kafka import TopicPartition

_GENERATION = Struct(">i")


def generation_as_user_data(partitions: Collection[TopicPartition], generation: int) -> bytes:
    """The generation of the last assignment; what was assigned stands in the subscription itself."""
    return _GENERATION.pack(generation)


def generation_of(subscription: Subscription) -> int | None:
    """The generation in which a member got what it owns; None if it does not say."""
    if subscription.generation != NO_GENERATION:
        return subscription.generation
    if subscription.user_data is not None and len(subscription.user_data) >= _GENERATION.size:
        (generation,) = _GENERATION.unpack_from(subscription.user_data)
        return int(generation)
    return None


def assign_cooperatively(partitions: Mapping[str, int], subscriptions: Mapping[str, Subscription]) -> Assigned:
    """Shares partitions evenly and moves as few as it can; those that another member still has are left out."""
    told = [generation for each in subscriptions.values() if (generation := generation_of(each)) is not None]
    highest = max(told, default=None)

    def owned(subscription: Subscription) -> Owned:
        generation = generation_of(subscription)
        return Owned(subscription.owned, highest if generation is None else generation)

    assignment = assign_keeping(partitions, subscriptions, owned)
    owners: dict[TopicPartition, set[str]] = {}
    for member, each in subscriptions.items():
        for partition in each.owned:
            owners.setdefault(partition, set()).add(member)
    return {
        member: [each for each in assigned if member in (others := owners.get(each, set())) or not others]
        for member, assigned in assignment.items()
    }
