"""Assignors: which member of a group reads which partitions. Each is a pure function in a file of its own, and gives
what Apache Kafka 2.7 gives, so that any member of a mixed group may be the leader.

| name               | how partitions are shared                                                                   |
|--------------------|---------------------------------------------------------------------------------------------|
| range              | per topic: neighbours to the same member, the first members take the remainder              |
| roundrobin         | all partitions of all topics, one after the other, to the members in turn                   |
| sticky             | evenly, and members keep what they had; everything is given back before a rebalance         |
| cooperative-sticky | the same, but a member keeps reading what it does not give away (KIP-429)                   |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.assignors.cooperative_sticky import assign_cooperatively, generation_as_user_data
from ottla.client.assignors.range import assign_ranges
from ottla.client.assignors.roundrobin import assign_in_turns
from ottla.client.assignors.sticky import assign_stickily, owned_as_user_data
from ottla.client.consumer_protocol import Subscription
from ottla.config.nearest import hint
from ottla.errors import InvalidConfig
from ottla.kafka import TopicPartition


@dataclass(frozen=True, slots=True)
class Assignor:
    """One way to share partitions."""

    name: str
    #: From partition counts by topic, and subscriptions by member id, to partitions by member id.
    assign: Callable[[Mapping[str, int], Mapping[str, Subscription]], dict[str, list[TopicPartition]]]
    #: Whether members may keep what they do not give away while a rebalance goes on (KIP-429).
    is_cooperative: bool = False
    #: What a member tells the leader of the partitions it last got, and of the generation in which it got them.
    user_data: Callable[[Collection[TopicPartition], int], bytes] | None = None


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", assign_ranges),
        Assignor("roundrobin", assign_in_turns),
        Assignor("sticky", assign_stickily, user_data=owned_as_user_data),
        Assignor("cooperative-sticky", assign_cooperatively, True, generation_as_user_data),
    )
}


def assignors_of(names: Sequence[str]) -> tuple[Assignor, ...]:
    """The assignors of these names.

    Raises:
        InvalidConfig: one is not known, or none is named.
    """
    if not names:
        raise InvalidConfig("a member of a group names at least one assignor")
    for name in names:
        if name not in ASSIGNORS:
            names_there = f"there are {', '.join(ASSIGNORS)}"
            raise InvalidConfig(f"no assignor is called '{name}', {names_there}{hint(name, ASSIGNORS)}")
    return tuple(ASSIGNORS[name] for name in names)
