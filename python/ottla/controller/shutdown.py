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

from ottla.controller.term import Term
from ottla.errors import BrokerNotAvailable, StaleBrokerEpoch, counted
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)


async def shut_down(term: Term, broker: int, broker_epoch: int) -> list[TopicPartition]:
    """Takes a broker's work from it. Returns the partitions that it still leads, since nobody else can.

    `broker_epoch` is -1 where the request has none. Raises BrokerNotAvailable if it is not registered, StaleBrokerEpoch
    if that was its former life.
    """
    known = await term.brokers.epoch_of(broker, broker_epoch)
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
        if (
            partition is None
            or partition.state is None
            or len(partition.replicas) == 1
            or cluster.is_deleting(name.topic)
        ):
            continue
        names.append(name)
        if partition.state.leader == broker:
            led.add(name)
    changed = await term.states.settle(names)
    batch = term.channels.batch()
    remaining = []
    async for name in in_slices(names):
        partition = cluster.get(name)
        if partition is None or partition.state is None:
            continue
        if name in changed:
            batch.roles_of(name, also=[broker] if name in led else ())
        else:
            batch.metadata_of(name)
        if partition.state.leader == broker:
            remaining.append(name)
        else:
            batch.stop(name, [broker], NO_EPOCH)
    batch.metadata_to(cluster.brokers)
    await term.channels.send(batch)
    logger.info("broker %d led %s and still leads %d", broker, counted(len(led), "partition"), len(remaining))
    return remaining
