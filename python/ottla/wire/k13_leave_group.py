"""LeaveGroup: one member leaves, or, since version 3, several are removed (KIP-345)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class MemberIdentity(Message):
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None


class LeaveGroupRequest(Message):
    group_id: str = ""
    member_id: Annotated[str, V("0-2")] = ""
    members: Annotated[list[MemberIdentity], V("3+")] = []


class MemberResponse(Message):
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = ""
    error_code: Annotated[Int16, V("3+")] = 0


class LeaveGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
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
