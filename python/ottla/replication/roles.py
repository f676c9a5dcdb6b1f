"""What a state that the controller sends makes of a replica, and who is told of it."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec


class PartitionState(msgspec.Struct, frozen=True, gc=False):
    """What a controller says about a partition (LeaderAndIsr)."""

    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    zk_version: int
    #: The replicas that a reassignment adds, and those that it removes (KIP-455).
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


class Role(Enum):
    """What a state makes of the replica that gets it."""

    #: Not newer than what is known: it changes nothing.
    STALE = "stale"
    #: Leader of a new term: nothing of an older one counts.
    LEADS = "leads"
    #: Still leader: requests, groups and transactions go on.
    LEADS_ON = "leads on"
    #: Follower of another broker, or of none while there is no leader.
    FOLLOWS = "follows"


def role(state: PartitionState, broker_id: int, known_epoch: int, is_leader: bool) -> Role:
    """Says what `state` makes of a replica on `broker_id` that knows the leader epoch `known_epoch`.

    Only the very next leader epoch of a leader is one in which it leads on. Where epochs are missing another broker may
    have led in between.
    """
    if state.leader_epoch <= known_epoch:
        return Role.STALE
    if state.leader != broker_id:
        return Role.FOLLOWS
    return Role.LEADS_ON if is_leader and state.leader_epoch == known_epoch + 1 else Role.LEADS


def has_resigned(leader: int, leader_epoch: int, broker_id: int, known_epoch: int, is_leader: bool) -> bool:
    """Whether a controller, which names `leader` and `leader_epoch`, takes the replica on `broker_id` for the leader in
    an epoch in which it has resigned. It leads only in a later one.
    """
    return leader == broker_id and leader_epoch == known_epoch and not is_leader


class RoleListener(Protocol):
    """Who is told when this broker becomes, or stops being, the leader of a partition. Called on the loop, at once."""

    def elected(self, index: int, term: int) -> None:
        """Leader for a new term, which is named by its first leader epoch. Where this broker led before, `resigned` was
        called for that. A leader that leads on under the next leader epoch stays in its term.
        """

    def resigned(self, index: int) -> None:
        """No longer leader. Appends that wait have failed by now, with NotLeaderOrFollower."""
