"""What members of a group are, and what they are told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

Protocols: TypeAlias = list[tuple[str, bytes]]
"""(name, metadata) of each protocol that a member supports, the one it likes best first."""

Token: TypeAlias = Any
"""Who waits for an answer; opaque to the state machine."""

NEVER = 1 << 62
"""A deadline that does not come."""


#: How many members one line of the log names.
NAMED_MAX = 10


def named(member_ids: Sequence[str]) -> str:
    """Members as a line of the log says them: one line for all of them, since a line for each would take the loop for
    50 ms where thousands go at once.
    """
    if len(member_ids) == 1:
        return f"member {member_ids[0]}"
    more = ", ..." if len(member_ids) > NAMED_MAX else ""
    return f"{len(member_ids)} members ({', '.join(member_ids[:NAMED_MAX])}{more})"


def size_of(protocols: Protocols) -> int:
    """Names and metadata, in bytes (a name that is not ASCII takes a few more)."""
    size_bytes = 0
    for name, metadata in protocols:
        size_bytes += len(name) + len(metadata)
    return size_bytes


@dataclass(slots=True)
class JoinRequest:
    """What a member says when it joins. An empty `member_id` is one that has none yet."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    #: the client knows how to join again with the id it is given (KIP-394)
    must_know_its_id: bool = False

    @property
    def size_bytes(self) -> int:
        """What a member of it would keep of this, about."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return names + size_of(self.protocols)


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class Result(msgspec.Struct, frozen=True, gc=False):
    """An answer to a member. Where a rebalance ends there is one for each of them at once: it is cheap to make, and the
    collector does not look at it.
    """


class JoinResult(Result, frozen=True, gc=False):
    """The answer to a join. Only the leader gets the members; it assigns them."""

    member_id: str
    error: int = 0
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: Sequence[JoinedMember] = ()


class SyncResult(Result, frozen=True, gc=False):
    """The answer to a sync: what the member shall read, as the leader said."""

    error: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Member:
    """A member of a group. What it waits for, if anything, are the tokens."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
        "timer_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        #: has not got the answer to its first join
        self.is_new = False
        #: when it is given up
        self.deadline_ms = NEVER
        #: when its timer goes off, at or before the deadline; None without one
        self.timer_ms: int | None = None

    def __repr__(self) -> str:
        return self.member_id

    @property
    def size_bytes(self) -> int:
        """What its client said of it, without its assignment."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.client_id) + len(self.client_host)
        return names + size_of(self.protocols)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def metadata(self, protocol: str) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise KeyError(f"member {self} does not support protocol {protocol}")

    def vote(self, candidates: Collection[str]) -> str:
        """The protocol it likes best among those that all support."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise KeyError(f"member {self} supports none of {sorted(candidates)}")
