"""LeaveGroup: one member leaves, or, since version 3, several are removed (KIP-345).

Static members of Kafka's clients do not send it when they close: their place is kept until their session ends.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class MemberIdentity(Message):
    """A member that is to go."""

    #: "" if it is named by its instance id alone, as administrators do.
    member_id: Annotated[str, V("3+")] = ""
    #: The name of a static member; null for others.
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None


class LeaveGroupRequest(Message):
    """Members that are to go."""

    group_id: str = ""
    #: Version 3 has `members` instead.
    member_id: Annotated[str, V("0-2")] = ""
    #: A member that closes names itself, an administrator any number.
    members: Annotated[list[MemberIdentity], V("3+")] = []


class MemberResponse(Message):
    """The result for one member."""

    #: As it was asked.
    member_id: Annotated[str, V("3+")] = ""
    #: As it was asked.
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = ""
    error_code: Annotated[Int16, V("3+")] = 0


class LeaveGroupResponse(Message):
    """The result."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: Of the group. Before version 3 of the one member, too.
    error_code: Int16 = 0
    #: In the order in which they were named.
    members: Annotated[list[MemberResponse], V("3+")] = []


LEAVE_GROUP = Api(
    13,
    "LeaveGroup",
    "0-4",
    flexible=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    items_max=FEW_ITEMS_MAX,
    needs="READ on GROUP",
)
