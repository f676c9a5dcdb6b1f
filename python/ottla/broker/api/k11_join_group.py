"""JoinGroup (key 11): a member enters a group, and is answered when the group has a new generation.

Version 1: a rebalance timeout of its own. 4: a member without an id is given one first, and joins with it (KIP-394). 5:
static members (KIP-345). 6: flexible. 7: the protocol's type (KIP-559).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.group.members import JoinRequest, JoinResult
from ottla.wire.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    JoinGroup: TypeAlias = "Call[JoinGroupRequest, JoinGroupResponse]"


def handle(call: JoinGroup, rooms: GroupRooms) -> None:
    version = call.version
    asked = call.message
    join = JoinRequest(
        asked.member_id,
        asked.group_instance_id,
        call.client_id,
        f"/{call.session.address[0]}",  # as Java writes addresses: it is stored, and shown
        asked.session_timeout_ms,
        asked.rebalance_timeout_ms if version >= 1 else asked.session_timeout_ms,
        asked.protocol_type,
        [(protocol.name, protocol.metadata) for protocol in asked.protocols],
        must_know_its_id=version >= 4 and asked.group_instance_id is None,
    )
    rooms.groups.join(asked.group_id, join, partial(_answer, call, rooms))


def _answer(call: JoinGroup, rooms: GroupRooms, result: JoinResult) -> None:
    version = call.version
    answer = JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol if version >= 7 else result.protocol or "",
        leader=result.leader,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id, instance_id if version >= 5 else None, metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )
    call.reply(answer)
