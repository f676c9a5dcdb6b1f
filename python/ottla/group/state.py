"""A consumer group's state machine. Values and a time in, values out: no I/O, no clock, no tasks.

`TRANSITIONS` has what leads from one state to the next, and `docs/states.md` the picture.

A join waits in PreparingRebalance until every member has joined again; then all are answered with the new generation,
and one of them, the leader, with everybody's metadata. A sync waits in CompletingRebalance for the leader's, which
carries what each member shall read. That is stored before anybody hears of it. `Dead` is a group that was deleted, or
whose coordinator is another broker now.

Everything that affects these transitions is in this file; `ottla.group.roster` keeps who is in the group. Calls append
to `effects` what has to be done:

* `Answer`: someone who waited (or asked just now) gets a result. Each token is answered exactly once.
* `Store`: the group has to be written; `stored` is called with the outcome.

Time is in milliseconds of a clock that never goes back. A member is given up when nothing was heard of it for its
session timeout, except while it waits itself. Its deadline moves with each heartbeat, but its entry in the heap of
timers does not: when that comes up too early it is put back. A heartbeat costs an assignment, not a heap operation.

The rules are those of Apache Kafka 2.7 (kafka.coordinator.group.GroupCoordinator), with one addition: a token that is
superseded (a client that joins or syncs again while it waits) or whose member is removed is answered, not forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
    counted,
)
from ottla.group.effects import Answer, Effect, Replacement, Store
from ottla.group.members import JoinedMember, JoinRequest, JoinResult, Member, Protocols, SyncResult, Token, named
from ottla.group.offsets import GroupOffsets
from ottla.group.roster import Kept, Roster
from ottla.group.timers import Timers

logger = logging.getLogger("ottla.group")

#: How long a new member may wait for the answer to its first join. Nobody hears of it meanwhile, and if its client has
#: given up it must not hold up the group for ever (Kafka's NewMemberJoinTimeoutMs).
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

#: Generations are int32 on the wire and in the log.
GENERATION_MAX = (1 << 31) - 1

#: Static members are waited for again and again until their sessions end; a client may name a rebalance timeout of 0 or
#: less, and the broker must not do nothing else meanwhile.
STATIC_MEMBERS_WAIT_MS_MIN = 100


class State(Enum):
    """Named as DescribeGroups and ListGroups say it."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = State

#: Which states may follow each, and why. `docs/states.py` draws it.
TRANSITIONS: Final[Mapping[State, Mapping[State, str]]] = {
    EMPTY: {PREPARING: "a member joins"},
    PREPARING: {COMPLETING: "all have joined, or time is up", EMPTY: "nobody is left"},
    COMPLETING: {STABLE: "the leader's assignment is stored", PREPARING: "members change, or it cannot be stored"},
    STABLE: {PREPARING: "members change"},
    DEAD: {},
}


@dataclass(slots=True, frozen=True)
class Limits:
    """The settings group.*, in milliseconds, members and bytes."""

    initial_rebalance_delay_ms: int = 3_000
    members_max: int = (1 << 31) - 1
    #: Ids that were given out and not used yet. They live as long as a session, and a client asks for one per request.
    #: Honest clients use theirs at once, so more than a few wait only when very many start together.
    pending_members_max: int = 10_000
    #: Names and metadata of all protocols that a member offers. What one of them says is stored with that of all other
    #: members in one record of the group, which by default has 1 MiB.
    metadata_bytes_max: int = 8 << 20
    #: What one group keeps of its members, with their assignments: many times what one record can have.
    group_bytes_max: int = 16 << 20
    #: what all groups of a coordinator keep of their members, in bytes; small members may have as much again
    bytes_max: int = 1 << 62


@dataclass(slots=True)
class _PendingMember:
    """An id that was given out, and nobody has joined with it yet (KIP-394)."""

    member_id: str
    deadline_ms: int


@dataclass(slots=True)
class _Rebalance:
    """The wait for members to join. The first one of an empty group is longer, so that all who start at once are in."""

    deadline_ms: int
    is_initial: bool = False
    delay_ms: int = 0
    remaining_ms: int = 0


#: Of a client's or an instance's id, what a member's id begins with at most, in bytes. Ids are kept for every member
#: and every pending one, and stand in many answers: those of honest clients are a tenth of this.
ID_BEGINNING_MAX = 1_000

#: Members that are given up in one go: a few milliseconds.
GIVEN_UP_AT_ONCE = 500

#: A member that is larger finds less room among all groups than others do: honest ones have a few hundred bytes.
LARGE_MEMBER_BYTES = 16 * 1024


def _beginning(name: str) -> str:
    if len(name) <= ID_BEGINNING_MAX // 4:
        return name
    return name.encode()[:ID_BEGINNING_MAX].decode(errors="ignore")


class Group:
    """One group. See above; errors are Kafka's codes, 0 is none."""

    def __init__(
        self, group_id: str, limits: Limits, new_id: Callable[[], str], of_all_groups: Kept | None = None
    ) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self._roster = Roster(of_all_groups)
        self._of_all_groups = of_all_groups or Kept()
        self.members = self._roster.members
        self.pending_members: dict[str, _PendingMember] = {}
        self.offsets = GroupOffsets()
        self.effects: list[Effect] = []
        self._limits = limits
        self._new_id = new_id
        self._has_new_member = False
        self._rebalance: _Rebalance | None = None
        self._timers: Timers[Member | _PendingMember | _Rebalance] = Timers(self._is_wanted)

    def __repr__(self) -> str:
        return self.group_id

    # --- who is in it ---

    @property
    def leader(self) -> str | None:
        return self._roster.leader

    @property
    def protocol_type(self) -> str | None:
        return self._roster.protocol_type

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    @property
    def static_members(self) -> Mapping[str, str]:
        """Instance id to member id."""
        return self._roster.static

    @property
    def all_have_joined(self) -> bool:
        return len(self.members) == self._roster.awaiting_join and not self.pending_members

    def restore(self, members: Iterable[Member], protocol_type: str | None, leader: str | None) -> None:
        """Members as the log has them, who have joined and been assigned."""
        for member in members:
            self._roster.add(member, protocol_type or "")
            if member.instance_id is not None:
                self._roster.static[member.instance_id] = member.member_id
        self._roster.assigned(sum(len(member.assignment) for member in self.members.values()))
        self._roster.leader = leader
        self._roster.protocol_type = protocol_type
        self.state = STABLE if self.members else EMPTY

    # --- joining ---

    def join(self, now: int, token: Token, request: JoinRequest) -> None:
        if not self._has_room_for(request):
            self._remove(request.member_id)
            self._answer(token, JoinResult("", GroupMaxSizeReached.code))
        elif error := self._size_error(request):
            self._answer(token, JoinResult(request.member_id, error))
        elif not request.member_id:
            self._join_unknown(now, token, request)
        else:
            self._join_known(now, token, request)
        self._maybe_complete_join(now)

    def _has_room_for(self, request: JoinRequest) -> bool:
        members_max = self._limits.members_max
        if self.state is PREPARING:
            # Not by the group's size: the limit may have been lowered, and the last to join again are to go.
            member = self.members.get(request.member_id)
            return (member is not None and member.join_token is not None) or self._roster.awaiting_join < members_max
        if self.state in (COMPLETING, STABLE):
            # Unlike in Kafka 2.7 a static member that comes back finds its place in a full group, too.
            has_place = request.member_id in self.members or request.instance_id in self._roster.static
            return has_place or len(self.members) < members_max
        return True

    def _size_error(self, request: JoinRequest) -> int:
        """Whether there is room for what the member says of itself; 0 if so."""
        size_bytes = self._roster.size_with(request)
        if size_bytes > self._limits.group_bytes_max:
            logger.warning(
                "group %s: a join of %s is refused, with it the group would have %d bytes, more than %d",
                self,
                request.client_host,
                size_bytes,
                self._limits.group_bytes_max,
            )
            return GroupMaxSizeReached.code
        more_bytes = size_bytes - self._roster.size_bytes
        bytes_max = self._limits.bytes_max * (1 if request.size_bytes > LARGE_MEMBER_BYTES else 2)
        if more_bytes > 0 and self._of_all_groups.bytes + more_bytes > bytes_max:
            logger.warning(
                "group %s: a join of %s is refused, all groups keep %d bytes already",
                self,
                request.client_host,
                self._of_all_groups.bytes,
            )
            # Others leave or are given up: clients try that again.
            return CoordinatorNotAvailable.code
        return 0

    def _supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self._roster.supports(protocol_type, protocols)

    def _join_unknown(self, now: int, token: Token, request: JoinRequest) -> None:
        if self.state is DEAD:
            return self._answer(token, JoinResult("", CoordinatorNotAvailable.code))
        if not self._supports(request.protocol_type, request.protocols):
            return self._answer(token, JoinResult("", InconsistentGroupProtocol.code))
        # The prefix is what some clients look at to tell whether they lead.
        name = request.client_id if request.instance_id is None else request.instance_id
        member_id = f"{_beginning(name)}-{self._new_id()}"
        if request.instance_id is not None and request.instance_id in self._roster.static:
            return self._replace_static(now, token, request, member_id)
        if request.must_know_its_id:
            if len(self.pending_members) >= self._limits.pending_members_max:
                # Clients try that again.
                return self._answer(token, JoinResult("", CoordinatorNotAvailable.code))
            pending = self.pending_members[member_id] = _PendingMember(member_id, now + request.session_timeout_ms)
            self._timers.start(pending.deadline_ms, pending)
            return self._answer(token, JoinResult(member_id, MemberIdRequired.code))
        return self._add_and_rebalance(now, token, request, member_id)

    def _join_known(self, now: int, token: Token, request: JoinRequest) -> None:
        member_id = request.member_id
        if self.state is DEAD:
            return self._answer(token, JoinResult(member_id, CoordinatorNotAvailable.code))
        if not self._supports(request.protocol_type, request.protocols):
            return self._answer(token, JoinResult(member_id, InconsistentGroupProtocol.code))
        if member_id in self.pending_members and member_id not in self.members:
            if request.instance_id is not None:
                # Ids are given out ahead only to members that are not static.
                return self._answer(token, JoinResult(member_id, UnknownServerError.code))
            return self._add_and_rebalance(now, token, request, member_id)
        if self._roster.is_fenced(member_id, request.instance_id):
            return self._answer(token, JoinResult(member_id, FencedInstanceId.code))
        member = self.members.get(member_id)
        if member is None or (request.instance_id is not None and request.instance_id not in self._roster.static):
            return self._answer(token, JoinResult(member_id, UnknownMemberId.code))
        is_unchanged = member.protocols == request.protocols
        if self.state is COMPLETING and is_unchanged:
            # Probably it never got the answer to its join.
            return self._answer(token, self._joined(member))
        if self.state is STABLE and is_unchanged and not self.is_leader(member_id):
            return self._answer(token, self._joined(member))
        if self.state in (PREPARING, COMPLETING, STABLE):
            # A leader that joins again wants a rebalance: the topics have changed, for instance.
            self._update(member, request.protocols, token)
            return self._maybe_prepare(now, f"member {member_id} joined again")
        return self._answer(token, JoinResult(member_id, UnknownMemberId.code))

    def _add_and_rebalance(self, now: int, token: Token, request: JoinRequest, member_id: str) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
        )
        member.is_new = True
        if self.state is PREPARING and self.generation == 0:
            self._has_new_member = True
        self._roster.add(member, request.protocol_type)
        self._await_join(member, token)
        self._give_until(member, now + NEW_MEMBER_JOIN_TIMEOUT_MS)
        if member.instance_id is not None:
            self._roster.static[member.instance_id] = member_id
        else:
            self.pending_members.pop(member_id, None)
        self._maybe_prepare(now, f"member {member_id} is new")

    def _replace_static(self, now: int, token: Token, request: JoinRequest, member_id: str) -> None:
        """A process came back: it gets the place, and what was assigned, of the one before it."""
        assert request.instance_id is not None
        old_id = self._roster.static[request.instance_id]
        leader_before = self.leader or ""
        member = self.members[old_id]
        self._rename(member, member_id)
        self._give_until(member, now + member.session_timeout_ms)
        self._update(member, request.protocols, token)
        if self.state is STABLE:
            if self._roster.select_protocol() != self.protocol:
                return self._maybe_prepare(now, f"static member {request.instance_id} changed its protocols")
            # With the leader of before, who then does not take itself for the leader and assign again.
            assignments = {other.member_id: other.assignment for other in self.members.values()}
            replacement = Replacement(member, old_id, member_id, leader_before)
            self.effects.append(Store(self.generation, assignments, replacement))
        elif self.state is COMPLETING:
            # The leader may be assigning to the old id.
            self._prepare(now, f"static member {request.instance_id} came back")
        return None

    def _joined(self, member: Member) -> JoinResult:
        members = []
        if self.is_leader(member.member_id):
            assert self.protocol is not None
            members = [
                JoinedMember(other.member_id, other.instance_id, other.metadata(self.protocol))
                for other in self.members.values()
            ]
        return JoinResult(
            member.member_id, 0, self.generation, self.protocol_type, self.protocol, self.leader or "", members
        )

    # --- rebalancing ---

    def _maybe_prepare(self, now: int, reason: str) -> None:
        if self.state in (STABLE, COMPLETING, EMPTY):
            self._prepare(now, reason)

    def _prepare(self, now: int, reason: str) -> None:
        if self.state is COMPLETING:
            self._fail_syncs(now, RebalanceInProgress.code)
        if self.state is EMPTY:
            delay_ms = self._limits.initial_rebalance_delay_ms
            remaining_ms = max(self._roster.rebalance_timeout_ms - delay_ms, 0)
            rebalance = _Rebalance(now + delay_ms, True, delay_ms, remaining_ms)
        else:
            rebalance = _Rebalance(now + self._roster.rebalance_timeout_ms)
        self._become(PREPARING)
        logger.info("group %s rebalances after generation %d: %s", self, self.generation, reason)
        self._wait_for_joins(rebalance)
        self._maybe_complete_join(now)

    def _wait_for_joins(self, rebalance: _Rebalance) -> None:
        self._rebalance = rebalance
        self._timers.start(rebalance.deadline_ms, rebalance)

    def _maybe_complete_join(self, now: int) -> None:
        if self._rebalance is not None and not self._rebalance.is_initial and self.all_have_joined:
            self._complete_join(now)

    def _rebalance_expired(self, now: int, rebalance: _Rebalance) -> None:
        if rebalance.is_initial and self._has_new_member and rebalance.remaining_ms:
            # Someone has just come: others may follow.
            self._has_new_member = False
            delay_ms = min(self._limits.initial_rebalance_delay_ms, rebalance.remaining_ms)
            remaining_ms = max(rebalance.remaining_ms - rebalance.delay_ms, 0)
            self._wait_for_joins(_Rebalance(now + delay_ms, True, delay_ms, remaining_ms))
        else:
            self._complete_join(now)

    def _complete_join(self, now: int) -> None:
        self._rebalance = None
        # The youngest first: whenever the leader goes, the oldest one that is left is looked for.
        absent = [
            member.member_id
            for member in reversed(self.members.values())
            if member.join_token is None and not member.is_static
        ]
        if absent:
            logger.info("group %s: %s did not join again", self, named(absent))
        for member_id in absent:
            self._remove(member_id)
        if self.members and not self._roster.elect_leader():
            # Only static members, and none of them has come: they have until their session ends.
            delay_ms = max(self._roster.rebalance_timeout_ms, STATIC_MEMBERS_WAIT_MS_MIN)
            return self._wait_for_joins(_Rebalance(now + delay_ms))
        # Then generations begin anew. Kafka goes on below 0, which clients take for no generation at all.
        self.generation = self.generation % GENERATION_MAX + 1
        if not self.members:
            self.protocol = None
            self._become(EMPTY)
            logger.info("group %s is empty in generation %d", self, self.generation)
            self.effects.append(Store(self.generation, {}))
            return None
        self.protocol = self._roster.select_protocol()
        self._become(COMPLETING)
        logger.info("group %s has %s in generation %d", self, counted(len(self.members), "member"), self.generation)
        for member in self.members.values():
            self._answer_join(member, self._joined(member))
            self._give_until(member, now + member.session_timeout_ms)
            member.is_new = False
        return None

    # --- syncing ---

    def sync(
        self,
        now: int,
        token: Token,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Mapping[str, bytes],
    ) -> None:
        """`protocol_type` and `protocol` are None from clients that do not say them (KIP-559)."""
        error = self._sync_error(member_id, instance_id, generation, protocol_type, protocol)
        if error:
            return self._answer(token, SyncResult(error))
        member = self.members[member_id]
        if self.state is STABLE:
            self._give_until(member, now + member.session_timeout_ms)
            return self._answer(token, SyncResult(0, self.protocol_type, self.protocol, member.assignment))
        if member.sync_token is not None:
            self._answer(member.sync_token, SyncResult(RebalanceInProgress.code))
        member.sync_token = token
        if self.is_leader(member_id):
            complete = {name: assignments.get(name, b"") for name in self.members}
            if not self._has_room_for_assignments(sum(map(len, complete.values()))):
                # As what the log finds too large, but before it is encoded.
                self._fail_syncs(now, UnknownServerError.code)
                return self._maybe_prepare(now, "its assignment is too large")
            self.effects.append(Store(generation, complete))
        return None

    def _has_room_for_assignments(self, size_bytes: int) -> bool:
        self._roster.assigned(size_bytes)
        if self._roster.size_bytes <= self._limits.group_bytes_max:
            return True
        logger.warning(
            "group %s: an assignment of %d bytes is refused, with it the group would have more than %d",
            self,
            size_bytes,
            self._limits.group_bytes_max,
        )
        self._roster.assigned(0)
        return False

    def _sync_error(
        self, member_id: str, instance_id: str | None, generation: int, protocol_type: str | None, protocol: str | None
    ) -> int:
        if self.state is DEAD:
            return CoordinatorNotAvailable.code
        if self._roster.is_fenced(member_id, instance_id):
            return FencedInstanceId.code
        if member_id not in self.members:
            return UnknownMemberId.code
        if generation != self.generation:
            return IllegalGeneration.code
        if protocol_type is not None and protocol_type != self.protocol_type:
            return InconsistentGroupProtocol.code
        if protocol is not None and protocol != self.protocol:
            return InconsistentGroupProtocol.code
        if self.state is EMPTY:
            return UnknownMemberId.code
        return RebalanceInProgress.code if self.state is PREPARING else 0

    def stored(self, now: int, store: Store, error: int) -> None:
        """The log answered a `Store`; `error` is the one for the members who wait for it."""
        if store.replacement is not None:
            return self._stored_replacement(now, store, error)
        if not store.assignments:
            if error:
                # Should this broker end now, the generation before comes back, and its members expire again.
                logger.warning("group %s: its being empty could not be stored: error %d", self, error)
            return None
        # Another member may have come meanwhile: then there is a new rebalance, and this is of no use.
        if self.state is not COMPLETING or store.generation != self.generation:
            return None
        if error:
            self._fail_syncs(now, error)
            return self._maybe_prepare(now, "its assignment could not be stored")
        for member in self.members.values():
            member.assignment = store.assignments[member.member_id]
            self._answer_sync(now, member, SyncResult(0, self.protocol_type, self.protocol, member.assignment))
        self._become(STABLE)
        return None

    def _stored_replacement(self, now: int, store: Store, error: int) -> None:
        replacement = store.replacement
        assert replacement is not None
        member = replacement.member
        if self.members.get(replacement.new_id) is not member or member.join_token is None:
            return  # it has left, or a rebalance has answered it, or yet another process has its place
        if self.state is not STABLE or store.generation != self.generation:
            return  # it takes part in a rebalance that began meanwhile
        result = JoinResult(
            "" if error else replacement.new_id,
            error,
            self.generation,
            self.protocol_type,
            self.protocol,
            replacement.leader_before,
        )
        self._answer_join(member, result)
        if error:
            self._rename(member, replacement.old_id)
        self._give_until(member, now + member.session_timeout_ms)

    def _fail_syncs(self, now: int, error: int) -> None:
        self._roster.assigned(0)
        for member in self.members.values():
            member.assignment = b""
            self._answer_sync(now, member, SyncResult(error))

    # --- staying ---

    def heartbeat(self, now: int, member_id: str, instance_id: str | None, generation: int) -> int:
        if self.state is DEAD:
            return CoordinatorNotAvailable.code
        if instance_id is not None and self._roster.is_fenced(member_id, instance_id):
            return FencedInstanceId.code
        member = self.members.get(member_id)
        if member is None:
            return UnknownMemberId.code
        if generation != self.generation:
            return IllegalGeneration.code
        self._give_until(member, now + member.session_timeout_ms)
        return RebalanceInProgress.code if self.state is PREPARING else 0

    def commit_error(self, now: int, member_id: str, instance_id: str | None, generation: int) -> int:
        """Whether a member may commit offsets; 0 if so. Counts as a heartbeat.

        A generation below 0 comes from who only stores offsets here: allowed while the group is empty.
        """
        if self.state is DEAD:
            return CoordinatorNotAvailable.code
        if self._roster.is_fenced(member_id, instance_id):
            return FencedInstanceId.code
        if generation < 0 and self.state is EMPTY:
            return 0
        member = self.members.get(member_id)
        if member is None:
            return UnknownMemberId.code
        if generation != self.generation:
            return IllegalGeneration.code
        if self.state is COMPLETING:
            return RebalanceInProgress.code
        # While a rebalance is prepared the members still own what they have.
        self._give_until(member, now + member.session_timeout_ms)
        return 0

    def transactional_commit_error(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """The same for a transaction: member and generation are checked if they are given (KIP-447)."""
        if self.state is DEAD:
            return CoordinatorNotAvailable.code
        if self._roster.is_fenced(member_id, instance_id):
            return FencedInstanceId.code
        if member_id and member_id not in self.members:
            return UnknownMemberId.code
        return IllegalGeneration.code if generation >= 0 and generation != self.generation else 0

    # --- leaving ---

    def leave(self, now: int, member_id: str, instance_id: str | None) -> int:
        """A member leaves, or is made to (then by its instance id, without a member id)."""
        if self.state is DEAD:
            return CoordinatorNotAvailable.code
        if member_id and self._roster.is_fenced(member_id, instance_id):
            return FencedInstanceId.code
        if member_id in self.pending_members and member_id not in self.members:
            if instance_id is not None:
                return UnknownServerError.code
            self._remove_pending(now, member_id)
            return 0
        known = self._roster.static.get(instance_id) if instance_id is not None else None
        member = self.members.get(known or member_id)
        if member is None:
            return UnknownMemberId.code
        self._remove_and_rebalance(now, member, f"member {member} left")
        return 0

    def _remove_and_rebalance(self, now: int, member: Member, reason: str) -> None:
        self._remove(member.member_id)
        self._maybe_prepare(now, reason)
        self._maybe_complete_join(now)

    def _remove_pending(self, now: int, member_id: str) -> None:
        self.pending_members.pop(member_id, None)
        self._maybe_complete_join(now)

    # --- the coordinator's life ---

    def taken_over(self, now: int) -> None:
        """The group came from the log: its members have a session timeout to be heard of."""
        if len(self.members) > self._limits.members_max:
            self._prepare(now, "it has more members than group.max.size allows")
        for member in self.members.values():
            self._give_until(member, now + member.session_timeout_ms)

    def die(self, error: int = NotCoordinator.code) -> None:
        """The group is deleted, or another broker's. Whoever waits gets `error`."""
        self._rebalance = None
        for member in self.members.values():
            self._release(member, error, member.member_id)
        self._timers.clear()
        self._roster.is_over()
        # From every state, this one too.
        self.state = DEAD

    # --- time ---

    @property
    def next_timer_ms(self) -> int:
        """When `tick` is to be called at the latest."""
        return self._timers.next_ms

    def tick(self, now: int) -> None:
        """Does what is due. Of very many members some are given up, and the others are due again at once."""
        given_up = 0
        for subject in self._timers.due(now):
            if isinstance(subject, Member):
                subject.timer_ms = None
                if subject.deadline_ms > now:
                    self._give_until(subject, subject.deadline_ms)
                elif subject.is_new or (subject.join_token is None and subject.sync_token is None):
                    logger.info("group %s: nothing was heard of member %s, it is given up", self, subject)
                    self._remove_and_rebalance(now, subject, f"member {subject} was not heard of")
                    given_up += 1
                    if given_up == GIVEN_UP_AT_ONCE:
                        return
                # Who waits for us needs no heartbeat; its time begins with the answer.
            elif isinstance(subject, _Rebalance):
                self._rebalance_expired(now, subject)
            else:
                logger.info("group %s: nobody joined as %s", self, subject.member_id)
                self._remove_pending(now, subject.member_id)

    def _is_wanted(self, at_ms: int, subject: Member | _PendingMember | _Rebalance) -> bool:
        """Whether a timer still means anything: members leave and get other deadlines, rebalances end early."""
        if isinstance(subject, Member):
            return subject.timer_ms == at_ms and self.members.get(subject.member_id) is subject
        if isinstance(subject, _Rebalance):
            return subject is self._rebalance
        return self.pending_members.get(subject.member_id) is subject

    def _give_until(self, member: Member, deadline_ms: int) -> None:
        member.deadline_ms = deadline_ms
        timer_ms = member.timer_ms
        if timer_ms is None or timer_ms > deadline_ms:
            member.timer_ms = deadline_ms
            self._timers.start(deadline_ms, member)

    # --- details ---

    def _become(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"group {self} cannot go from {self.state} to {state}"
        self.state = state

    def _answer(self, token: Token, result: JoinResult | SyncResult) -> None:
        self.effects.append(Answer(token, result))

    def _answer_join(self, member: Member, result: JoinResult) -> None:
        token = self._roster.end_join(member)
        if token is not None:
            self._answer(token, result)

    def _answer_sync(self, now: int, member: Member, result: SyncResult) -> None:
        if member.sync_token is not None:
            self._answer(member.sync_token, result)
            member.sync_token = None
            self._give_until(member, now + member.session_timeout_ms)

    def _await_join(self, member: Member, token: Token) -> None:
        superseded = self._roster.await_join(member, token)
        if superseded is not None:
            # The same client over another connection; the first one is of no use to it any more.
            self._answer(superseded, JoinResult(member.member_id, RebalanceInProgress.code))

    def _update(self, member: Member, protocols: Protocols, token: Token) -> None:
        self._roster.change_protocols(member, protocols)
        self._await_join(member, token)

    def _release(self, member: Member, error: int, member_id: str = "") -> None:
        """Whoever waits as this member learns why that is of no use."""
        self._answer_join(member, JoinResult(member_id, error))
        if member.sync_token is not None:
            self._answer(member.sync_token, SyncResult(error))
            member.sync_token = None

    def _remove(self, member_id: str) -> None:
        member = self._roster.remove(member_id)
        if member is not None:
            self._release(member, UnknownMemberId.code)

    def _rename(self, member: Member, member_id: str) -> None:
        """A static member's new process has the place; the old one, if it waits, learns that it is fenced."""
        self._release(member, FencedInstanceId.code, member.member_id)
        self._roster.rename(member, member_id)
