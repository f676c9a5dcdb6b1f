"""What administrators order of the controller: elections of leaders here, moves to other replicas in `moves`. Either
through a request, or (as tools before KIP-455 and KIP-460 do) through a node in the tree that is removed when it is
done.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import trio

from ottla.controller import decisions
from ottla.controller.election import Elected
from ottla.controller.model import Cluster
from ottla.coordination import znodes
from ottla.coordination.tree import Operation, Tree, Watch, get_or_none
from ottla.coordination.znodes import MalformedNode, PartitionState
from ottla.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidTopic,
    KafkaError,
    PreferredLeaderNotAvailable,
    ProtocolError,
    UnknownTopicOrPartition,
)
from ottla.kafka import NO_LEADER, PartitionKey, TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger(__name__)

NO_PARTITION = "The partition does not exist."
#: Far more than anybody has; what is asked for is looked through for each of them, and named in messages.
REPLICAS_MAX = 1_000
#: Reasons that name a partition are different for each.
REASONS_MAX = 1_000
#: How long an unclean election waits for brokers to say where their logs end.
ENDS_S = 3.0


class Term(Protocol):
    """What orders need of the controller's term that carries them out."""

    elected: Elected
    tree: Tree
    cluster: Cluster

    async def change_states(self, wanted: Mapping[TopicPartition, PartitionState]) -> set[TopicPartition]:
        """Writes new states, first to the tree; returns those that are written."""

    async def tell_all(self, names: Iterable[TopicPartition]) -> None:
        """The roles of partitions to the brokers that hold them, and everybody's metadata."""

    async def multi(self, operations: Sequence[Operation]) -> None:
        """As Tree.multi, if this is still the controller."""

    async def delete_nodes(self, paths: Sequence[str]) -> None:
        """Deletes nodes of the tree, if this is still the controller."""

    def is_deleting(self, topic: str) -> bool:
        """Whether a topic is being deleted."""

    async def tell_moved(self, leaving: Mapping[TopicPartition, Collection[int]]) -> None:
        """As `tell_all`; and the brokers that hold a partition no longer are to delete it."""

    def watch_endings(self) -> None:
        """Has `moves.give_up_silent` called when brokers have had their time."""

    moves_in_tree: dict[TopicPartition, tuple[int, ...]]
    """Moves that are under way because a node in the tree asks for them, with the replicas that are wanted."""


class Reasons:
    """One object for each reason, where very many partitions are refused for the same: the collector looks through them
    all. They are told, never raised.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[type[KafkaError], str], KafkaError] = {}

    def one(self, error: KafkaError) -> KafkaError:
        reason = (type(error), str(error))
        known = self._known.get(reason, error)
        if len(self._known) < REASONS_MAX:
            self._known[reason] = known
        return known


# Elections.


#: By partition, where the log of each of its brokers ends that says so: the leader epoch of its last record, and its
#: end offset.
Ends: TypeAlias = Mapping[TopicPartition, Mapping[int, tuple[int, int]]]
NO_ENDS: Ends = MappingProxyType({})

#: Asks a broker where its logs of partitions end that have no leader: by partition a pair as in `Ends`, or an error.
#: Raises OSError, ProtocolError.
EndsAt: TypeAlias = Callable[[int, Collection[PartitionKey]], Awaitable[Mapping[PartitionKey, Any]]]


async def ends_of(cluster: Cluster, names: Iterable[TopicPartition], ends_at: EndsAt | None) -> Ends:
    """Where the logs end of those partitions that nobody leads. Kafka's brokers do not say it."""
    asked: dict[int, list[PartitionKey]] = {}
    async for name in in_slices(names):
        partition = cluster.get(name)
        if partition is not None and partition.state is not None and partition.state.leader not in cluster.brokers:
            for broker in partition.replicas:
                if broker in cluster.brokers:
                    asked.setdefault(broker, []).append(name)
    found: dict[TopicPartition, dict[int, tuple[int, int]]] = {}

    async def ask(broker: int, keys: list[PartitionKey], ends_at: EndsAt) -> None:
        with trio.move_on_after(ENDS_S):
            try:
                answers = await ends_at(broker, keys)
            except (OSError, ProtocolError) as error:
                logger.info("broker %d does not say where its logs end: %s", broker, error)
                return
            for key, end in answers.items():
                if not isinstance(end, KafkaError) and end[1] >= 0:
                    found.setdefault(TopicPartition(*key), {})[broker] = tuple(end)

    if ends_at is not None:
        async with trio.open_nursery() as nursery:
            for broker, keys in asked.items():
                nursery.start_soon(ask, broker, keys, ends_at)
    return found


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
    done = await term.change_states(wanted)
    await term.tell_all(done)
    async for name, state in in_slices(wanted.items()):
        results[name] = state.leader if name in done else _unavailable(name, unclean=unclean)
    return results


def _elect(
    term: Term, name: TopicPartition, ends: Mapping[int, tuple[int, int]], *, unclean: bool
) -> PartitionState | KafkaError:
    partition = term.cluster.get(name)
    if partition is None or partition.state is None:
        return UnknownTopicOrPartition(NO_PARTITION)
    if term.is_deleting(name.topic):
        return InvalidTopic("The topic is being deleted.")
    leader = partition.state.leader
    online = term.cluster.online(name, partition.replicas)
    epoch = term.elected.epoch
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
                ends.get(state.leader, "that it did not say"),
                {broker: end for broker, end in ends.items() if broker != state.leader},
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


async def asked_in(term: Term, path: str, watch: Watch) -> bytes | None:
    """What a tool wrote there; None while it has not, and then the watch tells when it does."""
    if await term.tree.exists(path, watch) is None:
        return None
    node = await get_or_none(term.tree, path)
    return node.data if node is not None else None


async def elections_in_tree(term: Term, watch: Watch) -> None:
    """Preferred elections that were asked for in `/admin/preferred_replica_election`."""
    path = znodes.PREFERRED_REPLICA_ELECTION
    asked = await asked_in(term, path, watch)
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
    await term.delete_nodes([path])
