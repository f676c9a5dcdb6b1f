"""DescribeGroups (key 15): state and members of groups.

A group that is not known is described as Dead, without an error. Version 3: authorized operations (KIP-430). 4:
instance ids. 5: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.authorization.authorizer import ALL_BITS
from ottla.errors import GroupAuthorizationFailed
from ottla.group.state import DEAD, STABLE
from ottla.slices import Slices
from ottla.wire.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    DescribeGroups: TypeAlias = "Call[DescribeGroupsRequest, DescribeGroupsResponse]"

#: Lengths and numbers of a row.
ROW_BYTES = 32


async def handle(call: DescribeGroups, rooms: GroupRooms) -> None:
    """A group that is named twice is described twice, as in Kafka. Each is described as of its own moment."""
    asked = call.message
    memory, slices = call.memory, Slices()
    rights = call.rights
    known: dict[str, DescribedGroup] = {}
    answer = DescribeGroupsResponse(groups=[])
    for group_id in asked.groups:
        row = known.get(group_id)
        if row is None:
            if rights is not None and not rights.may(Operation.DESCRIBE, Resource.GROUP, group_id):
                row = DescribedGroup(error_code=GroupAuthorizationFailed.code, group_id=group_id)
            else:
                row = await _describe(rooms, group_id, slices)
            known[group_id] = row
            if asked.include_authorized_operations and not row.error_code:
                row.authorized_operations = (
                    ALL_BITS[Resource.GROUP] if rights is None else rights.bits(Resource.GROUP, group_id)
                )
        answer.groups.append(row)
        await memory.add(_size_bytes(row))
        await slices.row()
    call.reply(answer)


def _size_bytes(row: DescribedGroup) -> int:
    """About what a group takes in an answer."""
    members = (
        ROW_BYTES
        + len(member.member_metadata)
        + len(member.member_assignment)
        + 3 * (len(member.member_id) + len(member.client_id) + len(member.client_host))
        for member in row.members
    )
    return ROW_BYTES + 3 * len(row.group_id) + sum(members)


async def _describe(rooms: GroupRooms, group_id: str, slices: Slices) -> DescribedGroup:
    hosted = rooms.groups.groups.get(group_id)
    if hosted is None:
        error = rooms.groups.missing(group_id, may_be_empty=True)
        return DescribedGroup(error_code=error, group_id=group_id, group_state="" if error else DEAD.value)
    group = hosted.group
    # Before a generation is stable its metadata means nothing.
    protocol = (group.protocol or "") if group.state is STABLE else ""
    row = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
    )
    # Members are of one moment; what one of them says in between, it says after that.
    members = [(member, member.member_id, member.protocols, member.assignment) for member in group.members.values()]
    for member, member_id, protocols, assignment in members:
        await slices.row()
        row.members.append(
            DescribedGroupMember(
                member_id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=next((data for name, data in protocols if name == protocol), b""),
                member_assignment=assignment if protocol else b"",
            )
        )
    return row
