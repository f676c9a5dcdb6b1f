"""LeaveGroup (key 13): members leave, so that the others need not wait for their sessions to end.

Version 3: several at once, by member id or instance id (KIP-345). 4: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext


def handle(broker: GroupContext, request: Request) -> None:
    version = request.api_version
    asked: LeaveGroupRequest = LEAVE_GROUP.decode_request(version, request)
    if version >= 3:
        leaving = [(member.member_id, member.group_instance_id) for member in asked.members]
    else:
        leaving = [(asked.member_id, None)]
    error, errors = broker.groups.leave(asked.group_id, leaving)
    answer = LeaveGroupResponse(error_code=error)
    if version >= 3:
        answer.members = [
            MemberResponse(member_id, instance_id, error)
            for (member_id, instance_id), error in zip(leaving if errors else (), errors, strict=True)
        ]
    elif not error:
        (answer.error_code,) = errors
    reply(broker, request, LEAVE_GROUP, answer)
