"""SyncGroup: the leader of a group hands in assignments, and every member gets its own.

Everybody asks, and is answered once the leader's assignments are stored.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class SyncGroupRequestAssignment(Message):
    """The work of one member."""

    #: A member without such a row gets an empty assignment.
    member_id: str = ""
    #: Coordinators do not read it.
    assignment: bytes = b""


class SyncGroupRequest(Message):
    """A member that wants its assignment."""

    group_id: str = ""
    #: The one that JoinGroup answered.
    generation_id: Int32 = 0
    #: The one that JoinGroup answered.
    member_id: str = ""
    #: The name of a static member; null for others (KIP-345).
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    #: Has to be there and to fit the group's, or the answer is INCONSISTENT_GROUP_PROTOCOL (KIP-559).
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    #: The same for the protocol that JoinGroup answered.
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    #: Those of all members. Only the leader's are taken.
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message):
    """The member's own assignment."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    #: The group's own; null after an error.
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    #: The group's own; null after an error.
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    #: Empty if the leader gave the member nothing, and after an error.
    assignment: bytes = b""


SYNC_GROUP = Api(
    14,
    "SyncGroup",
    "0-5",
    flexible=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    items_max=FEW_ITEMS_MAX,
    needs="READ on GROUP",
)
