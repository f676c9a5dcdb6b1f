"""The order of a group's members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.consumer_protocol import Subscription


def ordered(members: Iterable[str], subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by their instance ids, then the others by their member ids: a static member that comes back with
    another member id has its old place (Kafka's AbstractPartitionAssignor.MemberInfo).
    """

    def place(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(members, key=place)
