"""Admin operations: elections of leaders that administrators order. Either through a request, or (as tools before
KIP-460 do) through a node in the tree that is removed when it is done. Moves to other replicas are in `moves`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.controller import decisions
from ottla.controller.asked import NO_PARTITION, Reasons, asked_in
from ottla.controller.events import PreferredElection
from ottla.controller.log_ends import NO_ENDS, Ends
from ottla.controller.term import Term
from ottla.coordination import znodes
from ottla.coordination.znodes import MalformedNode, PartitionState
from ottla.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidTopic,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.replication.questions import EpochEnd
from ottla.slices import in_slices

logger = logging.getLogger(__name__)


async def elect_leaders(
    term: Term, names: Iterable[TopicPartition], *, unclean: bool, ends: Ends = NO_ENDS
) -> dict[TopicPartition, KafkaError | int]:
    """Elects what can be elected; by partition the new leader, or why there is none. `ends` are for unclean elections:
    who has the most leads.
    """
    results: dict[TopicPartition, KafkaError | int] = {}
    wanted: dict[TopicPartition, PartitionState] = {}
    reasons = Reasons()
    async for name in in_slices(names):
        state = _elect(term, name, ends.get(name, {}), unclean=unclean)
        if isinstance(state, KafkaError):
            results[name] = reasons.one(state)
        else:
            wanted[name] = state
    done = await term.states.change(wanted)
    await term.channels.tell_roles(done)
    async for name, state in in_slices(wanted.items()):
        results[name] = state.leader if name in done else _unavailable(name, unclean=unclean)
    return results


def _elect(
    term: Term, name: TopicPartition, ends: Mapping[int, EpochEnd], *, unclean: bool
) -> PartitionState | KafkaError:
    partition = term.cluster.get(name)
    if partition is None or partition.state is None:
        return UnknownTopicOrPartition(NO_PARTITION)
    if term.cluster.is_deleting(name.topic):
        return InvalidTopic("The topic is being deleted.")
    leader = partition.state.leader
    online = term.cluster.online(name, partition.replicas)
    epoch = term.store.epoch
    if unclean:
        if leader != NO_LEADER and leader in term.cluster.brokers:
            return ElectionNotNeeded(f"{name} has a leader, broker {leader}.")
        suspected = term.cluster.suspected(name)
        state = decisions.ordered_leader(partition, online, suspected, ends, epoch)
        if state is not None:
            logger.warning(
                "%s: an operator has it led by broker %d, which has epoch and offset %s; what others had beyond is "
                "lost, and they have %s",
                name,
                state.leader,
                tuple(ends[state.leader]) if state.leader in ends else "that it did not say",
                {broker: tuple(end) for broker, end in ends.items() if broker != state.leader},
            )
    else:
        if leader == partition.replicas[0]:
            return ElectionNotNeeded(f"The leader of {name} is the preferred one, broker {leader}.")
        state = decisions.preferred_leader(partition, online, epoch)
    if state is None or state.leader == NO_LEADER:
        return _unavailable(name, unclean=unclean)
    return state


def _unavailable(name: TopicPartition, *, unclean: bool) -> KafkaError:
    if unclean:
        return EligibleLeadersNotAvailable(f"None of the replicas of {name} is online.")
    return PreferredLeaderNotAvailable(f"The preferred replica of {name} is not online, or not in sync.")


async def elections_in_tree(term: Term) -> None:
    """Preferred elections that were asked for in `/admin/preferred_replica_election`."""
    path = znodes.PREFERRED_REPLICA_ELECTION
    asked = await asked_in(term.store.tree, path, term.events.watch(PreferredElection()))
    if asked is None:
        return
    try:
        names = [TopicPartition(*name) for name in znodes.decode_partitions(path, asked)]
    except MalformedNode as error:
        logger.error("no election: %s", error)
        names = []
    for name, result in (await elect_leaders(term, names, unclean=False)).items():
        if isinstance(result, KafkaError) and not isinstance(result, ElectionNotNeeded):
            logger.warning("no election of a leader for %s: %s", name, result)
    await term.store.delete_nodes([path])
