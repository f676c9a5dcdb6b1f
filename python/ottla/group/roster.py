"""Who is in a group: its members, which of them leads, which are static, and which protocols all of them support.

No rules of when somebody may come or go, and nobody is answered here: that is the state machine's
(`ottla.group.state`).
"""

from __future__ import annotations

from collections import Counter

from ottla.group.members import JoinRequest, Member, Protocols, Token, size_of


class Kept:
    """What the groups of one coordinator keep of their members."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class Roster:
    """Counts are kept while members come and go: no request walks over all members, except where a rebalance ends."""

    def __init__(self, of_all_groups: Kept | None = None) -> None:
        #: by member id, in the order in which they came
        self.members: dict[str, Member] = {}
        #: instance id to member id
        self.static: dict[str, str] = {}
        self._leader: str | None = None
        self.protocol_type: str | None = None
        #: how many members wait for the answer to their join
        self.awaiting_join = 0
        self._supported: Counter[str] = Counter()
        #: what is kept of all members, with what was assigned to them last
        self.size_bytes = 0
        self._assigned_bytes = 0
        self._of_all_groups = of_all_groups

    @property
    def leader(self) -> str | None:
        """If the one who led is gone it is the oldest member. Who that is is not looked for before somebody asks: where
        thousands leave one after the other, each look would go past all that left before.
        """
        if self._leader is None:
            self._leader = next(iter(self.members), None)
        return self._leader

    @leader.setter
    def leader(self, member_id: str | None) -> None:
        self._leader = member_id

    # --- bytes ---

    def _count(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        if self._of_all_groups is not None:
            self._of_all_groups.bytes += size_bytes

    def assigned(self, size_bytes: int) -> None:
        """The members are assigned so much, instead of what they were before."""
        self._count(size_bytes - self._assigned_bytes)
        self._assigned_bytes = size_bytes

    def size_with(self, request: JoinRequest) -> int:
        """What is kept once this member has joined, or has joined again."""
        member_id = request.member_id
        if not member_id and request.instance_id is not None:
            member_id = self.static.get(request.instance_id, "")
        member = self.members.get(member_id)
        return self.size_bytes + request.size_bytes - (0 if member is None else member.size_bytes)

    def is_over(self) -> None:
        """Nobody is in the group any more: it does not count among all groups."""
        if self._of_all_groups is not None:
            self._of_all_groups.bytes -= self.size_bytes
            self._of_all_groups = None

    def is_fenced(self, member_id: str, instance_id: str | None) -> bool:
        """Whether a static member's place was taken by another process with the same instance id (KIP-345)."""
        if instance_id is None:
            return False
        known = self.static.get(instance_id)
        return known is not None and known != member_id

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # --- protocols ---

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether one of these protocols is supported by all members."""
        size = len(self.members)
        return self.protocol_type == protocol_type and any(self._supported[name] == size for name, _ in protocols)

    def select_protocol(self) -> str:
        """The one with the most votes among those that all members support."""
        size = len(self.members)
        candidates = {name for name, count in self._supported.items() if count == size}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._drop_support(member)
        self._supported.update({name for name, _ in protocols})
        self._count(size_of(protocols) - size_of(member.protocols))
        member.protocols = protocols

    def _drop_support(self, member: Member) -> None:
        """Names that nobody supports go: a client may send others with every join."""
        for name in {name for name, _ in member.protocols}:
            self._supported[name] -= 1
            if not self._supported[name]:
                del self._supported[name]

    # --- coming and going ---

    def add(self, member: Member, protocol_type: str) -> None:
        """The first one leads, and its protocol type is the group's."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self._count(member.size_bytes)
        self._supported.update({name for name, _ in member.protocols})

    def remove(self, member_id: str) -> Member | None:
        """The oldest member that is left leads if this one did."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(-member.size_bytes)
            self._drop_support(member)
            if member.instance_id is not None:
                del self.static[member.instance_id]
        if self._leader == member_id:
            self._leader = None
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """A static member's new process has the place, and leads if the one before did."""
        assert member.instance_id is not None
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        self._count(len(member_id) - len(member.member_id))
        member.member_id = member_id
        self.members[member_id] = member
        self.static[member.instance_id] = member_id

    def elect_leader(self) -> bool:
        """The leader must be one who has joined; False if nobody has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    # --- who waits ---

    def await_join(self, member: Member, token: Token) -> Token | None:
        """The member waits under this token; returns the one under which it did before."""
        superseded = member.join_token
        if superseded is None:
            self.awaiting_join += 1
        member.join_token = token
        return superseded

    def end_join(self, member: Member) -> Token | None:
        """Whom to answer, if the member waits."""
        token = member.join_token
        if token is not None:
            member.join_token = None
            self.awaiting_join -= 1
        return token
