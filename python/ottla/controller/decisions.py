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

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from ottla.controller.model import Partition
from ottla.coordination.znodes import ORDERED, PartitionState
from ottla.errors import FencedLeaderEpoch, InvalidRequest, KafkaError, NotController, UnknownTopicOrPartition
from ottla.kafka import NO_LEADER

RECOVERY_STATE = "leader_recovery_state"
NOTHING = (-1, -1)
"""In place of the end of a log that nobody told."""


class Phase(Enum):
    """Kafka's states of a partition (`PartitionState.scala`)."""

    NEW = "NewPartition"
    """Nobody has led it yet."""
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    """It has no leader now."""

    @classmethod
    def of(cls, state: PartitionState | None) -> Phase:
        if state is None:
            return cls.NEW
        return cls.OFFLINE if state.leader == NO_LEADER else cls.ONLINE


#: Which phases the decisions below may lead to from each, and why. `docs/states.py` draws it.
TRANSITIONS: Final[Mapping[Phase, Mapping[Phase, str]]] = {
    Phase.NEW: {Phase.ONLINE: "a replica is online"},
    Phase.ONLINE: {
        Phase.ONLINE: "another leader, ISR or assignment",
        Phase.OFFLINE: "no replica in sync is online",
    },
    Phase.OFFLINE: {
        Phase.ONLINE: "a replica in sync is back, or one that is not may lead",
        Phase.OFFLINE: "another assignment, or a new controller",
    },
}


def first_state(online: Sequence[int], controller_epoch: int) -> PartitionState | None:
    """Of a new partition: all replicas that are online are in sync, since all are empty. None if none is online."""
    if not online:
        return None
    return PartitionState(online[0], 0, tuple(online), controller_epoch)


def after_replicas_left(
    partition: Partition,
    online: Collection[int],
    controller_epoch: int,
    *,
    leaving: Collection[int] = (),
    unclean: bool = False,
) -> PartitionState | None:
    """The state after replicas went offline or came back: a leader if there can be one, an ISR without the dead.

    `online` are the partition's replicas that could lead. A leader that is `leaving` (its broker is shutting down) is
    none of them, and leads on all the same until somebody else can. `unclean` allows a replica that is not in sync, if
    none that is can.
    """
    state = partition.state
    assert state is not None, "a partition without a state gets its first one from first_state"
    in_sync = tuple(broker for broker in state.isr if broker in online)
    if not in_sync and _leads_until_it_stops(state, leaving):
        alone = (state.leader,)
        return None if state.isr == alone else _next(state, state.leader, alone, controller_epoch)
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


def ordered_leader(
    partition: Partition,
    online: Collection[int],
    suspected: Collection[int],
    ends: Mapping[int, tuple[int, int]],
    controller_epoch: int,
) -> PartitionState | None:
    """The state with the leader that somebody orders where there is none: one in sync, if one is online. Else who has
    the most by `ends` (of each broker that says so, the leader epoch of its last record and its log's end), and without
    them one that is `suspected` of having lost records, because it was in sync, or the first that is online. None if
    there is nobody.

    A suspected one leads only because it is ordered, so the state is marked for it (`znodes.ORDERED`).
    """
    state = partition.state
    assert state is not None, "a partition without a state gets its first one from first_state"
    if any(broker in state.isr for broker in online):
        return after_replicas_left(partition, online, controller_epoch)
    candidates = [broker for broker in partition.replicas if broker in suspected]
    candidates += [broker for broker in partition.replicas if broker in online and broker not in suspected]
    if not candidates:
        return None
    leader = max(candidates, key=lambda broker: ends.get(broker, NOTHING))
    chosen = _next(state, leader, (leader,), controller_epoch)
    if leader not in suspected:
        return chosen
    return msgspec.structs.replace(chosen, extra={**chosen.extra, ORDERED: True})


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

    @classmethod
    def of(cls, partition: Partition) -> Reassigned:
        """The assignment that a partition has."""
        return cls(partition.replicas, partition.adding, partition.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def is_move(self) -> bool:
        """True if a move is under way."""
        return bool(self.adding or self.removing)

    def beside(self, others: Sequence[int]) -> Reassigned:
        """This, with other brokers both on their way in and out: neither where it comes from nor where it goes to."""
        return Reassigned(
            (*self.replicas, *others),
            (*self.adding, *others),
            (*self.removing, *others),
        )


def reassigned(partition: Partition, target: Sequence[int] | None, online: Collection[int]) -> Reassigned | None:
    """The assignment on the way to `target`, from where the partition was before any move; None for `target` takes a
    move back, and is the answer if there is none (KIP-455, ReplicaAssignment.reassignTo).

    Replicas that a former target had, and that this one does not need, are left out, unless they are the only ones in
    sync, or the only ones of these that are `online`: then they are on their way in and out at once, which makes them
    part of neither end.
    """
    origin = tuple(broker for broker in partition.replicas if broker not in partition.adding)
    if target is None:
        if not partition.adding and not partition.removing:
            return None
        target = origin
    full = tuple(dict.fromkeys((*target, *origin)))
    isr = () if partition.state is None else partition.state.isr
    needed = tuple(broker for broker in isr if broker in online) or isr
    if not any(broker in full for broker in needed):
        full += needed
    return Reassigned(
        full,
        tuple(broker for broker in full if broker not in origin),
        tuple(broker for broker in full if broker not in target),
    )


def begun_reassignment(partition: Partition, online: Collection[int], controller_epoch: int) -> PartitionState | None:
    """The state under the next epoch, in which the leader hears who its replicas are from now on. Those that hold the
    partition no longer are in sync no longer. None if the partition was never led.
    """
    state = partition.state
    if state is None:
        return None
    isr = tuple(broker for broker in state.isr if broker in partition.replicas)
    if state.leader in isr and state.leader in online:
        return _next(state, state.leader, isr, controller_epoch)
    leaders = [broker for broker in partition.replicas if broker in isr and broker in online]
    return _next(state, leaders[0] if leaders else NO_LEADER, isr, controller_epoch)


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


def needs_unclean_election(partition: Partition, online: Collection[int], leaving: Collection[int] = ()) -> bool:
    """True if only a replica that is not in sync could lead, so that the topic's settings matter."""
    state = partition.state
    if state is None or not online or _leads_until_it_stops(state, leaving):
        return False
    return not any(broker in online for broker in state.isr)


def is_unclean(partition: Partition, later: PartitionState) -> bool:
    """True if the leader of the later state is not in sync in the partition's present state."""
    return partition.state is not None and later.leader not in (NO_LEADER, *partition.state.isr)


class IsrChange(NamedTuple):
    """A leader's request for a partition: `isr` in place of the one that `version` of the state's node has."""

    leader_epoch: int
    isr: tuple[int, ...]
    version: int


def altered_isr(
    partition: Partition, leader: int, change: IsrChange, controller_epoch: int
) -> PartitionState | KafkaError:
    """The state that broker `leader` asks for. Its version is not looked at: the tree compares it when it is written.

    The state as it is, if it is as wanted: the answer to a request that is repeated. The order of an ISR says nothing.
    NotController: the leader knows of a newer epoch, so that this controller was replaced. FencedLeaderEpoch: somebody
    else leads, or the same broker under a newer epoch. InvalidRequest: nothing that a leader could mean.
    """
    state = partition.state
    if state is None:
        return UnknownTopicOrPartition()
    if change.leader_epoch != state.leader_epoch:
        return NotController() if change.leader_epoch > state.leader_epoch else FencedLeaderEpoch()
    if len(change.isr) > len(partition.replicas):  # before anything is made of a list that may be very long
        return InvalidRequest()
    isr = set(change.isr)
    if leader != state.leader or leader not in isr or len(isr) < len(change.isr) or not isr <= set(partition.replicas):
        return InvalidRequest()
    if isr == set(state.isr):
        return state
    return PartitionState(state.leader, state.leader_epoch, change.isr, controller_epoch, _kept(state.extra))


def next_epoch(partition: Partition, controller_epoch: int) -> PartitionState | None:
    """The state under the next leader epoch, in which the leader begins anew with what the tree says."""
    state = partition.state
    return None if state is None else _next(state, state.leader, state.isr, controller_epoch)


def _leads_until_it_stops(state: PartitionState, leaving: Collection[int]) -> bool:
    return state.leader in leaving and state.leader in state.isr


def _next(state: PartitionState, leader: int, isr: tuple[int, ...], controller_epoch: int) -> PartitionState:
    return PartitionState(leader, state.leader_epoch + 1, isr, controller_epoch, _kept(state.extra))


def _kept(extra: dict[str, Any]) -> dict[str, Any]:
    """Fields of newer controllers stay as they are, but for one. After an unclean election Kafka 3.2 notes that the
    leader recovers (KIP-704), and its leaders say when they have. The leaders that this controller tells of their roles
    do not hear of it and never say so; 2.7 drops the note with its next write.
    """
    if ORDERED in extra:
        # The order is for one election.
        extra = {name: value for name, value in extra.items() if name != ORDERED}
    return {**extra, RECOVERY_STATE: 0} if extra.get(RECOVERY_STATE) else extra
