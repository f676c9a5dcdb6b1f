"""What administrators order of the controller: elections of leaders, and moves of partitions to other replicas. Either
through a request, or (as tools before KIP-455 and KIP-460 do) through a node in the tree that is removed when it is
done.

Replicas are only taken away or put in another order here. A move that gives a partition to another broker needs that
broker to copy it first; that is refused, since a move that can never end would block all changes to its topic.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ottla.controller import decisions
from ottla.controller.decisions import Reassigned
from ottla.controller.model import Partition
from ottla.controller.turns import in_turns
from ottla.coordination import znodes
from ottla.coordination.tree import BadVersion, ConnectionLoss, NoNode, Set, Watch, get_or_none
from ottla.coordination.znodes import MalformedNode, PartitionState, TopicAssignment
from ottla.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidTopic,
    KafkaError,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.kafka import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from ottla.controller.controller import _Term

logger = logging.getLogger(__name__)

NO_PARTITION = "The partition does not exist."
#: Far more than anybody has; what is asked for is looked through for each of them, and named in messages.
REPLICAS_MAX = 1_000


# Elections.


async def elect_leaders(
    term: _Term, names: Iterable[TopicPartition], *, unclean: bool
) -> dict[TopicPartition, KafkaError | int]:
    """Elects what can be elected; by partition the new leader, or why there is none."""
    results: dict[TopicPartition, KafkaError | int] = {}
    wanted: dict[TopicPartition, PartitionState] = {}
    async for name in in_turns(names):
        state = _elect(term, name, unclean=unclean)
        if isinstance(state, KafkaError):
            results[name] = state
        else:
            wanted[name] = state
    done = await term.change_states(wanted)
    await term.tell_all(done)
    async for name, state in in_turns(wanted.items()):
        results[name] = state.leader if name in done else _unavailable(name, unclean=unclean)
    return results


def _elect(term: _Term, name: TopicPartition, *, unclean: bool) -> PartitionState | KafkaError:
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
        state = decisions.after_replicas_left(partition, online, epoch, unclean=True)
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


async def _asked_in(term: _Term, path: str, watch: Watch) -> bytes | None:
    """What a tool wrote there; None while it has not, and then the watch tells when it does."""
    if await term.tree.exists(path, watch) is None:
        return None
    node = await get_or_none(term.tree, path)
    return node.data if node is not None else None


async def elections_in_tree(term: _Term, watch: Watch) -> None:
    """Preferred elections that were asked for in `/admin/preferred_replica_election`."""
    path = znodes.PREFERRED_REPLICA_ELECTION
    asked = await _asked_in(term, path, watch)
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


# Moves.


async def reassign(
    term: _Term, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, KafkaError | None]:
    """Begins moves, and ends those that need nobody to copy anything; by partition None or why it is not moved."""
    results: dict[TopicPartition, KafkaError | None] = {}
    async for name, target in in_turns(wanted.items()):
        plan = _plan(term, name, target)
        if isinstance(plan, KafkaError):
            results[name] = plan
            continue
        await _write_assignment(term, name, plan)
        results[name] = None
    async for name, error in in_turns(results.items()):
        if error is None:
            await _finish(term, name)
    return results


def _plan(term: _Term, name: TopicPartition, target: Sequence[int] | None) -> Reassigned | KafkaError:
    partition = term.cluster.get(name) or Partition(())
    if target is not None and (wrong := _wrong(target)):
        return InvalidReplicaAssignment(wrong)
    plan = decisions.reassigned(partition, target)
    if plan is None:
        return NoReassignmentInProgress(f"{name} is not being moved.")
    live = sorted(term.cluster.brokers)
    if not set(plan.adding) <= set(live):
        return InvalidReplicaAssignment(
            f"Replica assignment has brokers that are not alive. Replica list: {list(plan.adding)}, alive: {live}"
        )
    if not partition.replicas or term.is_deleting(name.topic):
        return UnknownTopicOrPartition(NO_PARTITION)
    if plan.adding:
        return InvalidReplicaAssignment(
            f"{name} cannot be given to brokers {list(plan.adding)}: this version does not copy partitions to others."
        )
    return plan


def _wrong(target: Sequence[int]) -> str | None:
    """What is wrong with a list of replicas, whatever brokers there are."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(target) > REPLICAS_MAX:
        return f"{len(target)} replicas in partition reassignment: no partition has more than {REPLICAS_MAX}."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    if min(target) < 0:
        return f"Invalid broker id in replica list: {list(target)}"
    return None


async def advance_reassignments(term: _Term, names: Iterable[TopicPartition]) -> None:
    """Ends the moves whose target replicas are all in sync: the others are taken away."""
    async for name in in_turns(names):
        partition = term.cluster.get(name)
        if partition is not None and (partition.removing or partition.adding) and not term.is_deleting(name.topic):
            await _finish(term, name)


async def _finish(term: _Term, name: TopicPartition) -> None:
    partition = term.cluster.get(name)
    if partition is None:
        return
    target = Reassigned(partition.replicas, partition.adding, partition.removing).target
    online = term.cluster.online(name, partition.replicas)
    state = decisions.after_reassignment(partition, target, online, term.elected.epoch)
    if state is None or not await term.change_states({name: state}):
        return
    leaving = partition.removing
    await _write_assignment(term, name, Reassigned(target, (), ()))
    term.stop_replicas(name, leaving, state.leader_epoch)
    await term.tell_all([name])
    logger.info("%s is held by %s now", name, list(target))


async def _write_assignment(term: _Term, name: TopicPartition, plan: Reassigned) -> None:
    """First in the tree, then here."""
    path = znodes.topic_path(name.topic)
    while True:
        node = await get_or_none(term.tree, path)
        if node is None:
            return
        current = TopicAssignment.decode(path, node.data)
        changed = msgspec.structs.replace(
            current,
            partitions={**current.partitions, name.partition: plan.replicas},
            adding=_with(current.adding, name.partition, plan.adding),
            removing=_with(current.removing, name.partition, plan.removing),
        )
        try:
            if changed != current:
                await term.multi([Set(path, changed.encode(), node.stat.version)])
        except ConnectionLoss:
            await term.tree.wait_connected()
        except (BadVersion, NoNode):
            continue
        else:
            term.cluster.assign(name.topic, changed)
            return


def _with(replicas: dict[int, tuple[int, ...]], partition: int, brokers: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    rest = {number: those for number, those in replicas.items() if number != partition}
    return {**rest, partition: brokers} if brokers else rest


async def reassignments_in_tree(term: _Term, watch: Watch) -> None:
    """Moves that were asked for in `/admin/reassign_partitions`."""
    path = znodes.REASSIGN_PARTITIONS
    asked = await _asked_in(term, path, watch)
    if asked is None:
        return
    try:
        wanted = {TopicPartition(*name): to for name, to in znodes.decode_reassignment(path, asked).items()}
    except MalformedNode as error:
        logger.error("no partition is moved: %s", error)
        wanted = {}
    for name, result in (await reassign(term, wanted)).items():
        if result is not None:
            logger.warning("%s is not moved: %s", name, result)
    await term.delete_nodes([path])
