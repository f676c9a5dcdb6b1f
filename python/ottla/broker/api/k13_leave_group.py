"""LeaveGroup (key 13): members leave, so that the others need not wait for their sessions to end.

Version 3: several at once, by member id or instance id (KIP-345). 4: flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.controller.batches import batches
from ottla.slices import Slices
from ottla.wire.k13_leave_group import (
    LEAVE_GROUP,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext

SEVERAL_SINCE = 3
#: Members that leave in one go: half a millisecond.
MEMBERS_AT_ONCE = 50


def handle(broker: GroupContext, request: Request) -> None:
    asked: LeaveGroupRequest = LEAVE_GROUP.decode_request(request.api_version, request)
    if len(asked.members) > MEMBERS_AT_ONCE:
        return broker.in_background(partial(_many_leave, asked=asked), request)
    if request.api_version >= SEVERAL_SINCE:
        answer = _leave(broker, asked.group_id, asked.members)
    else:
        error, errors = broker.groups.leave(asked.group_id, [(asked.member_id, None)])
        answer = LeaveGroupResponse(error_code=error or errors[0])
    return reply(broker, request, LEAVE_GROUP, answer)


async def _many_leave(broker: GroupContext, request: Request, asked: LeaveGroupRequest) -> None:
    """The same for many, some at a time; an error of the whole group ends it."""
    answer = LeaveGroupResponse()
    slices = Slices()
    for some in batches(asked.members, MEMBERS_AT_ONCE):
        left = _leave(broker, asked.group_id, some)
        if left.error_code:
            answer = left
            break
        answer.members += left.members
        await slices.row()
    reply(broker, request, LEAVE_GROUP, answer)


def _leave(broker: GroupContext, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
    leaving = [(member.member_id, member.group_instance_id) for member in members]
    error, errors = broker.groups.leave(group_id, leaving)
    if error:
        return LeaveGroupResponse(error_code=error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id, instance_id, error)
            for (member_id, instance_id), error in zip(leaving, errors, strict=True)
        ]
    )
