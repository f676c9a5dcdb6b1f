"""Heartbeat (key 12): a member is alive, and hears whether its group rebalances. Version 3: static members (KIP-345).
4: flexible.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    Heartbeat: TypeAlias = "Call[HeartbeatRequest, HeartbeatResponse]"


def handle(call: Heartbeat, rooms: GroupRooms) -> None:
    asked = call.message
    error = rooms.groups.heartbeat(asked.group_id, asked.member_id, asked.group_instance_id, asked.generation_id)
    call.reply_encoded(_body(call.version, error), error)


@cache
def _body(version: int, error: int) -> bytes:
    return HEARTBEAT.encode_response(version, HeartbeatResponse(error_code=error))
