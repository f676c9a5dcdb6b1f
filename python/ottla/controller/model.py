"""The controller's copy of its cluster, and which LeaderAndIsr is not acknowledged yet (`unheard`). Decisions are in
`decisions`.

The tree holds the truth. This is the copy that the active controller read when it was elected and has kept since;
nothing in it survives the loss of the controllership.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from ottla.controller.deletion import Deletion
from ottla.controller.endings import Endings
from ottla.coordination.znodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment
from ottla.kafka import TopicPartition


class Broker(msgspec.Struct, frozen=True):
    """A registered broker. `epoch` is the czxid of its registration: another process with the same id has another.

    `is_unclean`: some of its replicas in sync may have lost records with the power of its machine. `has_resigned`:
    before its registration the process led partitions, and leads them no more.
    """

    id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    is_unclean: bool = False
    has_resigned: bool = False

    @classmethod
    def of(cls, broker_id: int, epoch: int, registration: BrokerRegistration) -> Broker:
        of = registration
        return cls(broker_id, epoch, of.endpoints, of.rack, of.is_unclean, of.has_resigned)

    def may_have_resigned(self, mzxid: int) -> bool:
        """True if the broker may lead no more what it was to lead by a state that transaction `mzxid` wrote. A process
        that has not resigned leads on, or knows no leader epoch yet.
        """
        return self.has_resigned and self.epoch > mzxid

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class Away(NamedTuple):
    """A broker whose registration is gone before its session timeout has passed: it was removed early, or stopped.
    Clients are told of it until then (`requests`), and of nothing that it would do.
    """

    broker: Broker
    until_s: float


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
        """The registered brokers, those that are shutting down among them."""
        self.leaving: set[int] = set()
        """Registered brokers that asked for a controlled shutdown. They serve what nobody else can, and are given
        nothing more.
        """
        self.away: dict[int, Away] = {}
        """Brokers that are not registered, and that clients are told of."""
        self.untold: dict[TopicPartition, set[int]] = {}
        """Of partitions that were made since: the brokers that were not told of their replica yet, so that it never was
        online. Only these may make a log while one of their log directories is offline: it has none there.
        """
        self.failed_replicas: dict[int, set[TopicPartition]] = {}
        """Replicas of live brokers whose log directory failed, by broker."""
        self.unheard: dict[int, set[TopicPartition]] = {}
        """Replicas in sync that may have lost records, and all that are in sync with them, by broker, until the broker
        has taken or refused a role. Nobody is elected by what is not known of them: an election would take the others
        that were in sync out of the ISR. The registration of a broker is no sign that it lives: where all lost their
        power, that of a former life is there until its session ends.
        """
        self.topics: dict[str, dict[int, Partition]] = {}
        self.born: dict[str, int] = {}
        """The czxid of each topic's node: another topic of the same name has another."""
        self.endings = Endings()
        """Partitions that are held by fewer brokers than the tree's assignment names."""
        self.deletions: dict[str, Deletion] = {}
        """Topics that are being deleted."""

    def assign(self, topic: str, assignment: TopicAssignment) -> list[TopicPartition]:
        """Take over a topic's assignment as the tree has it; returns the partitions that were not known before. What is
        decided already of a move that is at its end stays, unless somebody has written another assignment.
        """
        known = self.topics.setdefault(topic, {})
        ends = bool(self.endings)
        fresh = []
        for number, replicas in assignment.partitions.items():
            partition = known.get(number)
            if partition is None:
                partition = known[number] = Partition(replicas)
                fresh.append(TopicPartition(topic, number))
            in_tree = (replicas, assignment.adding.get(number, ()), assignment.removing.get(number, ()))
            if ends and (ending := self.endings.get(TopicPartition(topic, number))) is not None:
                if ending.in_tree == in_tree:
                    continue
                self.endings.forget(TopicPartition(topic, number))
            partition.replicas, partition.adding, partition.removing = in_tree
        return fresh

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deletions

    def get(self, partition: TopicPartition) -> Partition | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.get(partition.partition)

    def set_state(self, name: TopicPartition, state: PartitionState, version: int) -> None:
        """Takes over a state as the tree has it. Nothing for a partition that is gone."""
        partition = self.get(name)
        if partition is not None:
            partition.state, partition.version = state, version

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
        """Those of the replicas that could lead now: the broker lives and stays, and its log directory works."""
        live, leaving, failed = self.brokers, self.leaving, self.failed_replicas
        return [
            broker
            for broker in replicas
            if broker in live and broker not in leaving and name not in failed.get(broker, ())
        ]

    def offline(self, name: TopicPartition, replicas: Iterable[int]) -> list[int]:
        """The other replicas. Those of brokers that are shutting down count among them, as in Kafka."""
        online = self.online(name, replicas)
        return [broker for broker in replicas if broker not in online]

    def is_online(self, name: TopicPartition, broker: int) -> bool:
        return bool(self.online(name, (broker,)))

    def leaving_with(self, name: TopicPartition) -> Collection[int]:
        """The brokers that are shutting down and can still serve this partition."""
        if not self.leaving:
            return ()
        return {broker for broker in self.leaving if not self.has_failed(name, broker)}

    def suspect(self, brokers: Iterable[Broker]) -> set[TopicPartition]:
        """The replicas in sync on unclean ones of these brokers, and the others that are in sync with them, are
        `unheard` until their brokers answer for them. Returns their partitions.
        """
        unclean = {broker.id for broker in brokers if broker.is_unclean}
        suspected = set()
        for name in self.on_brokers(unclean) if unclean else ():
            partition = self.get(name)
            if partition is None or partition.state is None or len(partition.replicas) == 1:
                continue
            if not unclean.isdisjoint(partition.state.isr):
                suspected.add(name)
                for broker in self.brokers.keys() & partition.state.isr:
                    self.unheard.setdefault(broker, set()).add(name)
        return suspected

    def is_unheard(self, name: TopicPartition, broker: int) -> bool:
        return name in self.unheard.get(broker, ())

    def suspected(self, name: TopicPartition) -> list[int]:
        """The brokers that live, and whose replicas in sync may have lost records, or have a broken disk."""
        partition = self.get(name)
        isr = () if partition is None or partition.state is None else partition.state.isr
        return [
            broker
            for broker in isr
            if broker in self.brokers
            and broker not in self.leaving
            and self.brokers[broker].is_unclean
            and (self.has_failed(name, broker) or self.is_unheard(name, broker))
        ]

    def has_failed(self, name: TopicPartition, broker: int) -> bool:
        return name in self.failed_replicas.get(broker, ())
