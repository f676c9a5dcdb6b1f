"""Heartbeat: a member of a group is alive. Version 3 knows static members (KIP-345)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None


class HeartbeatResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0


HEARTBEAT = Api(
    12,
    "Heartbeat",
    "0-4",
    flexible=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    has_small_answers=True,
    needs="READ on GROUP",
)
