"""The deletion of topics: which replicas still have to be deleted, and when a topic may leave the tree.

A topic that is marked in `/admin/delete_topics` is first taken from every broker's metadata, then every replica is told
to stop and delete; when all have answered that they did, the topic's nodes are removed. A replica whose broker is away
or could not delete waits until that broker comes back: a topic's name must not be free while old data of it exist
somewhere.

Values in, values out: the controller sends what `next_requests` returns and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple


class Replica(NamedTuple):
    topic: str
    partition: int
    broker: int


class Deletion:
    """One topic on its way out."""

    def __init__(
        self,
        topic: str,
        replicas: Mapping[int, Collection[int]],
        left: Mapping[int, Collection[int]] = MappingProxyType({}),
    ) -> None:
        """`replicas` are by partition the brokers that hold it, `left` those that it moved away from, and that may have
        it still.
        """
        self.topic = topic
        self.remaining = {
            Replica(topic, number, broker)
            for number, brokers in replicas.items()
            for broker in (*brokers, *left.get(number, ()))
        }
        self._asked: set[Replica] = set()
        self._refused: set[Replica] = set()

    @property
    def is_complete(self) -> bool:
        return not self.remaining

    def next_requests(self, live: Collection[int]) -> dict[int, list[int]]:
        """By broker, the partitions to delete there now: those not asked for yet, on brokers that live."""
        asked: dict[int, list[int]] = {}
        for replica in sorted(self.remaining - self._asked - self._refused):
            if replica.broker in live:
                asked.setdefault(replica.broker, []).append(replica.partition)
                self._asked.add(replica)
        return asked

    def deleted(self, broker: int, partitions: Iterable[int]) -> None:
        """The broker answered that these are gone."""
        replicas = {Replica(self.topic, partition, broker) for partition in partitions}
        self.remaining -= replicas
        self._asked -= replicas

    def failed(self, broker: int, partitions: Iterable[int]) -> None:
        """The broker could not delete these; it is asked again only when it has come back."""
        replicas = {Replica(self.topic, partition, broker) for partition in partitions} & self.remaining
        self._asked -= replicas
        self._refused |= replicas

    def broker_left(self, broker: int) -> None:
        """Forgets the requests that the broker has not answered: they have to be made again when it is back."""
        self._asked = {replica for replica in self._asked if replica.broker != broker}

    def broker_came(self, broker: int) -> None:
        self.broker_left(broker)
        self._refused = {replica for replica in self._refused if replica.broker != broker}
