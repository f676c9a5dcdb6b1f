"""Who leads a partition and who is in sync: the controller's decisions as functions from values to values.

Every decision that changes something raises the leader epoch by one, because brokers act only on a larger one. `None`
means: leave it as it is. The rules are Apache Kafka 2.7's (`Election.scala`, `PartitionStateMachine.scala`):

- the leader is the first replica *in the order of the assignment* that is online and in sync;
- only where `unclean.leader.election.enable` says so may a replica lead that is not in sync; it is then alone in the
  ISR,
  and what only the others had is lost;
- the stored ISR is never empty: who was last in sync is the one that may lead again.

One rule is more careful than Kafka's: where all in-sync replicas are gone, all of them stay in the ISR. Kafka takes
them out one by one until one is left; each of them has everything that was acknowledged, so any may come back and lead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ottla.controller.model import Partition
from ottla.coordination.znodes import PartitionState
from ottla.kafka import NO_LEADER


def first_state(online: Sequence[int], controller_epoch: int) -> PartitionState | None:
    """Of a new partition: all replicas that are online are in sync, since all are empty. None if none is online."""
    if not online:
        return None
    return PartitionState(online[0], 0, tuple(online), controller_epoch)


def after_replicas_left(
    partition: Partition, online: Collection[int], controller_epoch: int, *, unclean: bool = False
) -> PartitionState | None:
    """The state after replicas went offline or came back: a leader if there can be one, an ISR without the dead.

    `online` are the partition's replicas that could lead. `unclean` allows one that is not in sync, if none that is
    can.
    """
    state = partition.state
    assert state is not None, "a partition without a state gets its first one from first_state"
    in_sync = tuple(broker for broker in state.isr if broker in online)
    if state.leader in online and state.leader in state.isr:
        return None if in_sync == state.isr else _next(state, state.leader, in_sync, controller_epoch)
    candidates = [broker for broker in partition.replicas if broker in in_sync]
    if candidates:
        return _next(state, candidates[0], in_sync, controller_epoch)
    if unclean:
        for broker in partition.replicas:
            if broker in online:
                return _next(state, broker, (broker,), controller_epoch)
    return None if state.leader == NO_LEADER else _next(state, NO_LEADER, state.isr, controller_epoch)


def preferred_leader(partition: Partition, online: Collection[int], controller_epoch: int) -> PartitionState | None:
    """The state with the assignment's first replica as leader; None if that one is not online and in sync."""
    state, preferred = partition.state, partition.replicas[0]
    if state is None or preferred not in online or preferred not in state.isr:
        return None
    return _next(state, preferred, state.isr, controller_epoch)


class Reassigned(NamedTuple):
    """An assignment in which `replicas` hold a partition: `adding` are on their way in, `removing` on their way out."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


def reassigned(partition: Partition, target: Sequence[int] | None) -> Reassigned | None:
    """The assignment on the way to `target`, from where the partition was before any move; None for `target` takes a
    move back, and is the answer if there is none (KIP-455, ReplicaAssignment.reassignTo).
    """
    origin = tuple(broker for broker in partition.replicas if broker not in partition.adding)
    if target is None:
        if not partition.adding and not partition.removing:
            return None
        target = origin
    full = tuple(dict.fromkeys((*target, *origin)))
    return Reassigned(
        full,
        tuple(broker for broker in full if broker not in origin),
        tuple(broker for broker in full if broker not in target),
    )


def after_reassignment(
    partition: Partition, target: Sequence[int], online: Collection[int], controller_epoch: int
) -> PartitionState | None:
    """The state once only `target` hold the partition; None while not all of them are in sync, or none can lead."""
    state = partition.state
    if state is None or not set(target) <= set(state.isr):
        return None
    leaders = [state.leader] if state.leader in target and state.leader in online else []
    leaders += [broker for broker in target if broker in online]
    isr = tuple(broker for broker in state.isr if broker in target)
    return _next(state, leaders[0], isr, controller_epoch) if leaders else None


def needs_unclean_election(partition: Partition, online: Collection[int]) -> bool:
    """Whether only a replica that is not in sync could lead, so that the topic's settings matter."""
    state = partition.state
    return state is not None and bool(online) and not any(broker in online for broker in state.isr)


def _next(state: PartitionState, leader: int, isr: tuple[int, ...], controller_epoch: int) -> PartitionState:
    return PartitionState(leader, state.leader_epoch + 1, isr, controller_epoch, state.extra)
