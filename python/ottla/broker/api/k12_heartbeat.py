"""Heartbeat (key 12): a member is alive, and hears whether its group rebalances. Version 3: static members (KIP-345).
4: flexible.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.replies import note_errors
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext


def handle(broker: GroupContext, request: Request) -> None:
    version = request.api_version
    asked: HeartbeatRequest = HEARTBEAT.decode_request(version, request)
    error = broker.groups.heartbeat(asked.group_id, asked.member_id, asked.group_instance_id, asked.generation_id)
    note_errors(broker, HEARTBEAT, [error])
    request.reply(_body(version, error))


@cache
def _body(version: int, error: int) -> bytes:
    return HEARTBEAT.encode_response(version, HeartbeatResponse(error_code=error))
