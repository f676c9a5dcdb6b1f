"""Where the logs of partitions end that nobody leads, for elections of replicas that are not in sync.

Of two logs the one with the higher (leader epoch of its last record, end offset) has more. Between replicas that were
in sync this is enough: where their logs part, nothing was committed. A replica that was not in sync may end in a newer
epoch, of which nothing was ever committed, and have other records where one in sync has committed ones. So it counts
only if its log goes on from that of the best of those in sync: if it has that one's last record.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import trio

from ottla.controller.model import Cluster
from ottla.errors import KafkaError, ProtocolError
from ottla.kafka import PartitionKey, TopicPartition
from ottla.replication.questions import ANY_EPOCH, EpochEnd
from ottla.slices import in_slices

logger = logging.getLogger(__name__)

#: How long brokers have to say where their logs end.
ENDS_S = 3.0

#: By partition, where the log of each of its brokers ends that says so and that counts.
Ends: TypeAlias = Mapping[TopicPartition, Mapping[int, EpochEnd]]
NO_ENDS: Ends = MappingProxyType({})

#: Asks a broker where leader epochs end in its logs of partitions that have no leader; `ANY_EPOCH` is for the end of
#: the log. By partition an `EpochEnd`, or an error. Raises OSError, ProtocolError.
EpochEnds: TypeAlias = Callable[[int, Mapping[PartitionKey, int]], Awaitable[Mapping[PartitionKey, Any]]]

#: By broker and partition: the leader epoch that is asked for.
_Asked: TypeAlias = dict[int, dict[PartitionKey, int]]


async def ends_of(cluster: Cluster, names: Iterable[TopicPartition], epoch_ends: EpochEnds | None) -> Ends:
    """Where the logs end of those partitions that nobody leads. Kafka's brokers do not say it."""
    if epoch_ends is None:
        return NO_ENDS
    asked: _Asked = {}
    in_sync: dict[TopicPartition, tuple[int, ...]] = {}
    async for name in in_slices(names):
        partition = cluster.get(name)
        if partition is not None and partition.state is not None and partition.state.leader not in cluster.brokers:
            in_sync[name] = partition.state.isr
            for broker in partition.replicas:
                if broker in cluster.brokers:
                    asked.setdefault(broker, {})[name] = ANY_EPOCH
    found = await _answers(asked, epoch_ends)
    doubtful: _Asked = {}
    async for name, ends in in_slices(found.items()):
        for broker, epoch in doubts(in_sync[name], ends).items():
            doubtful.setdefault(broker, {})[name] = epoch
    common = await _answers(doubtful, epoch_ends)
    async for name, ends in in_slices(found.items()):
        found[name] = counting(in_sync[name], ends, common.get(name, {}))
        for broker in ends.keys() - found[name].keys():
            logger.warning(
                "%s: broker %d ends in leader epoch %d at offset %d, but does not have the last record of those that "
                "were in sync; its log does not count",
                name,
                broker,
                *ends[broker],
            )
    return found


def doubts(isr: Iterable[int], ends: Mapping[int, EpochEnd]) -> dict[int, int]:
    """The replicas that were not in sync and end in a newer epoch than all that were; for each the epoch whose end it
    has to say before it counts.
    """
    best = _best(isr, ends)
    if best is None or best.offset == 0:
        return {}
    return {broker: best.epoch for broker, end in ends.items() if broker not in isr and end.epoch > best.epoch}


def counting(isr: Iterable[int], ends: Mapping[int, EpochEnd], common: Mapping[int, EpochEnd]) -> dict[int, EpochEnd]:
    """The `ends` without the replicas whose logs part from the best of those that were in sync. `common` has what those
    of `doubts` said.
    """
    best = _best(isr, ends)
    asked = doubts(isr, ends)
    return {broker: end for broker, end in ends.items() if broker not in asked or _goes_on(common.get(broker), best)}


def _best(isr: Iterable[int], ends: Mapping[int, EpochEnd]) -> EpochEnd | None:
    return max((ends[broker] for broker in isr if broker in ends), default=None)


def _goes_on(known: EpochEnd | None, best: EpochEnd | None) -> bool:
    """True if a log has the last record of the best: it knows the record's epoch, and did not leave it earlier."""
    return known is not None and best is not None and known.epoch == best.epoch and known.offset >= best.offset


async def _answers(asked: _Asked, epoch_ends: EpochEnds) -> dict[TopicPartition, dict[int, EpochEnd]]:
    """By partition and broker what is said in time."""
    found: dict[TopicPartition, dict[int, EpochEnd]] = {}

    async def ask(broker: int, epochs: dict[PartitionKey, int]) -> None:
        with trio.move_on_after(ENDS_S):
            try:
                answers = await epoch_ends(broker, epochs)
            except (OSError, ProtocolError) as error:
                logger.info("broker %d does not say where its logs end: %s", broker, error)
                return
            for key, end in answers.items():
                if not isinstance(end, KafkaError) and end[1] >= 0:
                    found.setdefault(TopicPartition(*key), {})[broker] = EpochEnd(*end)

    async with trio.open_nursery() as nursery:
        for broker, epochs in asked.items():
            nursery.start_soon(ask, broker, epochs)
    return found
