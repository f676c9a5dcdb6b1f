"""Controlled shutdown: a broker that stops has its work taken from it first.

The partitions that it leads get other leaders where somebody else is in sync; where it follows it is taken out of the
ISR, so that nobody waits for it. From then on it is no candidate for anything, until its registration is gone. What it
leads and nobody else can stays with it, and is what it is told: it asks again, or stops all the same. Partitions with
one replica cannot move and do not count.

The broker is then told to stop its replicas, those too that it led a moment ago. (Kafka 2.7 lets it follow there. It
catches up, is taken into the ISR again, and is waited for once more when it is gone.) That StopReplica names no leader
epoch: a Kafka broker ignores one with the epoch that it knows. The order of a broker's requests keeps it apart from
what comes before and after.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.controller.model import Cluster
from ottla.controller.requests import RequestBatch
from ottla.errors import BrokerNotAvailable, StaleBrokerEpoch, counted
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)


class Term(Protocol):
    """What this needs of the controller's term."""

    cluster: Cluster

    def is_deleting(self, topic: str) -> bool:
        """Whether a topic is being deleted."""

    async def broker_epoch(self, broker: int, epoch: int) -> int | None:
        """The epoch that a broker has now. Looks again if it may be newer than known. None: it is not registered."""

    async def settle(self, names: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Gives each partition the state that fits who is online. Returns those whose state changed."""

    def batch(self) -> RequestBatch:
        """An empty one, to be given to `send`."""

    def tell(self, batch: RequestBatch, name: TopicPartition, *, also: Iterable[int] = ()) -> None:
        """The roles of a partition's replicas that are online, and of `also`."""

    def tell_of(self, batch: RequestBatch, name: TopicPartition) -> None:
        """A partition's metadata."""

    async def send(self, batch: RequestBatch) -> None:
        """Sends what was gathered."""


async def shut_down(term: Term, broker: int, broker_epoch: int) -> list[TopicPartition]:
    """Takes a broker's work from it. Returns the partitions that it still leads, since nobody else can.

    `broker_epoch` is -1 where the request has none. Raises BrokerNotAvailable if it is not registered, StaleBrokerEpoch
    if that was its former life.
    """
    known = await term.broker_epoch(broker, broker_epoch)
    if known is None:
        raise BrokerNotAvailable
    if broker_epoch != NO_EPOCH and broker_epoch < known:
        raise StaleBrokerEpoch
    logger.info("broker %d shuts down", broker)
    cluster = term.cluster
    cluster.leaving.add(broker)
    names: list[TopicPartition] = []
    led: set[TopicPartition] = set()
    async for name in in_slices(cluster.on_brokers([broker])):
        partition = cluster.get(name)
        if partition is None or partition.state is None or len(partition.replicas) == 1 or term.is_deleting(name.topic):
            continue
        names.append(name)
        if partition.state.leader == broker:
            led.add(name)
    changed = await term.settle(names)
    batch = term.batch()
    remaining = []
    async for name in in_slices(names):
        partition = cluster.get(name)
        if partition is None or partition.state is None:
            continue
        if name in changed:
            term.tell(batch, name, also=[broker] if name in led else ())
        else:
            term.tell_of(batch, name)
        if partition.state.leader == broker:
            remaining.append(name)
        else:
            batch.stop(name, [broker], NO_EPOCH)
    batch.metadata_to(cluster.brokers)
    await term.send(batch)
    logger.info("broker %d led %s and still leads %d", broker, counted(len(led), "partition"), len(remaining))
    return remaining
