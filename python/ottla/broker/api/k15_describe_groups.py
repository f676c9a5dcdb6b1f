"""DescribeGroups (key 15): state and members of groups.

A group that is not known is described as Dead, without an error. Version 3: authorized operations (KIP-430). 4:
instance ids. 5: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.group.state import DEAD, STABLE
from ottla.wire.k15_describe_groups import (
    DESCRIBE_GROUPS,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(6)

#: What may be done where nothing is forbidden: read, delete, describe, as bits by the codes of AclOperation.
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8))


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: DescribeGroupsRequest = DESCRIBE_GROUPS.decode_request(version, request)
    answer = DescribeGroupsResponse(groups=[_describe(broker, group_id, version) for group_id in asked.groups])
    if asked.include_authorized_operations:
        for row in answer.groups:
            if not row.error_code:
                row.authorized_operations = GROUP_OPERATIONS
    request.reply(DESCRIBE_GROUPS.encode_response(version, answer))


def _describe(broker: Broker, group_id: str, version: int) -> DescribedGroup:
    hosted = broker.groups.groups.get(group_id)
    if hosted is None:
        error = broker.groups.missing(group_id, may_be_empty=True)
        return DescribedGroup(error_code=error, group_id=group_id, group_state="" if error else DEAD.value)
    group = hosted.group
    # Before a generation is stable its metadata means nothing.
    protocol = (group.protocol or "") if group.state is STABLE else ""
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if protocol else b"",
                member_assignment=member.assignment if protocol else b"",
            )
            for member in group.members.values()
        ],
    )
