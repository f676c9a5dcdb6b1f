"""New in-sync replicas that leaders ask for (AlterIsr, KIP-497): which are refused, and why.

A leader names the leader epoch that it leads under and the version of the state's node that it knows. The tree compares
the version when the state is written, so that nothing is lost if the controller knows less than the leader. Whoever
sees a version as old waits for LeaderAndIsr, Kafka's leaders for ever; so this never writes a state without telling it.

One rule is Kafka 3.2's (KIP-841, KIP-903), not 2.7's: a replica is taken in only if its broker's registration is the
one that the controller knows, by a fresh look, and the broker is not shutting down. A leader sees its followers fetch,
and knows nothing of their registrations. A broker that was restarted with an empty disk would be in the ISR for what
its former life had fetched.

A leader that is refused is answered with the state that holds, not with an error: after an error of a partition
Kafka's leaders before 2.8 ask no more, and go on to count the replica among those that the high watermark waits for,
until their leader epoch ends. Where a replica's broker is gone the leader epoch is raised too: the leader forgets what
the dead one had fetched, and the fetches of the dead one, if it still has a connection, are fenced.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from ottla.controller import decisions
from ottla.controller.decisions import IsrChange
from ottla.controller.term import Term
from ottla.coordination.znodes import PartitionState
from ottla.errors import (
    InvalidUpdateVersion,
    KafkaError,
    StaleBrokerEpoch,
    UnknownTopicOrPartition,
)
from ottla.kafka import TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)


class Altered(NamedTuple):
    """A partition's state as the tree has it now, with the version of its node."""

    state: PartitionState
    version: int


async def alter_isr(
    term: Term, leader: int, leader_broker_epoch: int, changes: Mapping[TopicPartition, IsrChange]
) -> dict[TopicPartition, KafkaError | Altered]:
    """Does what one leader asks for; by partition the state that holds now, or the error. A replica that is refused is
    not in the state. Raises StaleBrokerEpoch if the leader's registration is not the one that it names.
    """
    if await term.brokers.epoch_of(leader, leader_broker_epoch) != leader_broker_epoch:
        raise StaleBrokerEpoch
    results: dict[TopicPartition, KafkaError | Altered] = {}
    wanted: dict[TopicPartition, tuple[PartitionState, int]] = {}
    joining: dict[TopicPartition, set[int]] = {}
    async for name, change in in_slices(changes.items()):
        outcome = _decide(term, leader, name, change)
        if not isinstance(outcome, PartitionState):
            results[name] = outcome
            continue
        wanted[name] = outcome, change.version
        if added := set(outcome.isr) - set(_now(term, name).state.isr):
            joining[name] = added
    orphaned = await _refuse_strangers(term, joining, wanted, results)
    written = await term.states.write(wanted)
    async for name, (state, _) in in_slices(wanted.items()):
        if name in written.done:
            results[name] = Altered(state, written.done[name])
        else:
            results[name] = InvalidUpdateVersion() if name in written.found else UnknownTopicOrPartition()
    await term.channels.tell_metadata([name async for name in in_slices(changes) if term.cluster.get(name) is not None])
    await term.channels.tell_roles(await term.states.lead_anew(orphaned))
    term.moves.isr_grew(name for name in joining if name in written.done)
    return results


def _decide(term: Term, leader: int, name: TopicPartition, change: IsrChange) -> PartitionState | Altered | KafkaError:
    """The state to write, the one that is there already as asked, or an error."""
    partition = term.cluster.get(name)
    if partition is None or term.cluster.is_deleting(name.topic):
        return UnknownTopicOrPartition()
    state = decisions.altered_isr(partition, leader, change, term.store.epoch)
    if state is partition.state and isinstance(state, PartitionState):
        return Altered(state, partition.version)
    if change.version < 0:  # to the tree it would mean any version
        return InvalidUpdateVersion()
    return state


async def _refuse_strangers(
    term: Term,
    joining: Mapping[TopicPartition, set[int]],
    wanted: dict[TopicPartition, tuple[PartitionState, int]],
    results: dict[TopicPartition, KafkaError | Altered],
) -> list[TopicPartition]:
    """Takes out of `wanted` what would take in a replica that may not be. Returns the partitions with one that is
    dead.
    """
    if not joining:
        return []
    strangers = await term.brokers.strangers({broker for brokers in joining.values() for broker in brokers})
    orphaned = []
    async for name, brokers in in_slices(joining.items()):
        # Looking at the strangers may have changed the cluster, but not back to what the leader had seen.
        refused = {broker for broker in brokers if broker in strangers or not term.cluster.is_online(name, broker)}
        if refused:
            logger.info("%s: not taken into the ISR: %s", name, sorted(refused))
            now = _now(term, name)
            # A leader that knows a newer state would not understand this one.
            results[name] = now if wanted[name][1] <= now.version else InvalidUpdateVersion()
            del wanted[name]
            if refused & strangers:
                orphaned.append(name)
    return orphaned


def _now(term: Term, name: TopicPartition) -> Altered:
    """The state of a partition, as it is known."""
    partition = term.cluster.get(name)
    assert partition is not None
    assert partition.state is not None
    return Altered(partition.state, partition.version)
