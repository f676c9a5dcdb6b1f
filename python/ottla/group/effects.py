"""What the state machine of a group asks to have done: answers to those who wait, and writing the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ottla.group.members import JoinResult, Member, SyncResult, Token


class Answer(msgspec.Struct, frozen=True):
    token: Token
    result: JoinResult | SyncResult


@dataclass(slots=True, frozen=True)
class Replacement:
    """A static member has a new id; its join is answered with the leader of before."""

    member: Member
    old_id: str
    new_id: str
    leader_before: str


@dataclass(slots=True, frozen=True)
class Store:
    """The group has to be written with these assignments, as it is now; then `group.stored(now, self, error)`."""

    generation: int
    assignments: Mapping[str, bytes]
    #: where a static member came back
    replacement: Replacement | None = None


Effect: TypeAlias = Answer | Store
