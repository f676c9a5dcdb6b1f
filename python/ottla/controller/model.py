"""What a controller knows of its cluster: brokers, topics, partitions. Values and lookups; decisions are in
`decisions`.

The tree holds the truth. This is the copy that the active controller read when it was elected and has kept since;
nothing in it survives the loss of the controllership.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ottla.coordination.znodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment
from ottla.kafka import TopicPartition


class Replica(NamedTuple):
    topic: str
    partition: int
    broker: int


class Broker(msgspec.Struct, frozen=True):
    """A registered broker. `epoch` is the czxid of its registration: another process with the same id has another."""

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    @classmethod
    def of(cls, broker_id: int, epoch: int, registration: BrokerRegistration) -> Broker:
        return cls(broker_id, epoch, registration.endpoints, registration.rack)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class Partition(msgspec.Struct, eq=False, gc=False):
    """One partition: its assignment, and its state in the tree, which is None until the first leader was chosen.

    `version` is the version of the state's node, the condition of the next write.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    state: PartitionState | None = None
    version: int = 0


class Cluster:
    """Everything the active controller knows."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}
        self.failed_replicas: dict[int, set[TopicPartition]] = {}
        """Replicas of live brokers whose log directory failed, by broker."""
        self.topics: dict[str, dict[int, Partition]] = {}

    def assign(self, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
        """Take over a topic's assignment as the tree has it; returns the partitions that were not known before."""
        known = self.topics.setdefault(topic, {})
        fresh = []
        for number, replicas in assignment.partitions.items():
            partition = known.get(number)
            if partition is None:
                partition = known[number] = Partition(replicas)
                fresh.append(TopicPartition(topic, number))
            partition.replicas = replicas
            partition.adding = assignment.adding.get(number, ())
            partition.removing = assignment.removing.get(number, ())
        return fresh

    def get(self, partition: TopicPartition) -> Partition | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.get(partition.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        for topic, partitions in self.topics.items():
            for number, partition in partitions.items():
                yield TopicPartition(topic, number), partition

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in topics for number in self.topics.get(topic, ())]

    def on_brokers(self, brokers: Iterable[int]) -> list[TopicPartition]:
        """The partitions that have a replica on one of these brokers."""
        wanted = frozenset(brokers)
        return [name for name, partition in self.partitions() if not wanted.isdisjoint(partition.replicas)]

    def online(self, name: TopicPartition, replicas: Iterable[int]) -> list[int]:
        """Those of the replicas that could lead now: the broker lives, and its log directory works."""
        return [broker for broker in replicas if broker in self.brokers and not self.has_failed(name, broker)]

    def offline(self, name: TopicPartition, replicas: Iterable[int]) -> list[int]:
        """The other replicas: those that nobody can reach."""
        return [broker for broker in replicas if broker not in self.brokers or self.has_failed(name, broker)]

    def has_failed(self, name: TopicPartition, broker: int) -> bool:
        return name in self.failed_replicas.get(broker, ())
