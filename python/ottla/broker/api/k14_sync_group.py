"""SyncGroup (key 14): a member asks what it shall read, and is answered when the leader has said it for all.

Version 3: static members (KIP-345). 4: flexible. 5: the protocol's type and name must be said, and fit (KIP-559).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import InconsistentGroupProtocol
from ottla.group.members import SyncResult
from ottla.wire.k14_sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    SyncGroup: TypeAlias = "Call[SyncGroupRequest, SyncGroupResponse]"


def handle(call: SyncGroup, rooms: GroupRooms) -> None:
    version = call.version
    asked = call.message
    if version >= 5 and (asked.protocol_type is None or asked.protocol_name is None):
        return _answer(call, rooms, SyncResult(InconsistentGroupProtocol.code))
    return rooms.groups.sync(
        asked.group_id,
        asked.member_id,
        asked.group_instance_id,
        asked.generation_id,
        asked.protocol_type,
        asked.protocol_name,
        {row.member_id: row.assignment for row in asked.assignments},
        partial(_answer, call, rooms),
    )


def _answer(call: SyncGroup, rooms: GroupRooms, result: SyncResult) -> None:
    answer = SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
    call.reply(answer)
