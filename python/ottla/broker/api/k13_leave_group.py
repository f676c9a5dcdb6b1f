"""LeaveGroup (key 13): members leave, so that the others need not wait for their sessions to end.

Version 3: several at once, by member id or instance id (KIP-345). 4: flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.controller.batches import batches
from ottla.slices import Slices
from ottla.wire.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    LeaveGroup: TypeAlias = "Call[LeaveGroupRequest, LeaveGroupResponse]"

SEVERAL_SINCE = 3
#: Members that leave in one go: half a millisecond.
MEMBERS_AT_ONCE = 50


def handle(call: LeaveGroup, rooms: GroupRooms) -> None:
    asked = call.message
    if len(asked.members) > MEMBERS_AT_ONCE:
        return call.in_background(_many_leave, call, rooms, asked)
    if call.version >= SEVERAL_SINCE:
        answer = _leave(rooms, asked.group_id, asked.members)
    else:
        error, errors = rooms.groups.leave(asked.group_id, [(asked.member_id, None)])
        answer = LeaveGroupResponse(error_code=error or errors[0])
    return call.reply(answer)


async def _many_leave(call: LeaveGroup, rooms: GroupRooms, asked: LeaveGroupRequest) -> None:
    """The same for many, some at a time; an error of the whole group ends it."""
    answer = LeaveGroupResponse()
    slices = Slices()
    for some in batches(asked.members, MEMBERS_AT_ONCE):
        left = _leave(rooms, asked.group_id, some)
        if left.error_code:
            answer = left
            break
        answer.members += left.members
        await slices.row()
    call.reply(answer)


def _leave(rooms: GroupRooms, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
    leaving = [(member.member_id, member.group_instance_id) for member in members]
    error, errors = rooms.groups.leave(group_id, leaving)
    if error:
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id, instance_id, error)
            for (member_id, instance_id), error in zip(leaving, errors, strict=True)
        ]
    )
