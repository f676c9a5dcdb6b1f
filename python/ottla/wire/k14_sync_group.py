"""SyncGroup: the leader of a group hands in assignments, and every member gets its own.

Version 3 knows static members (KIP-345), 5 checks the protocol type and name (KIP-559).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class SyncGroupRequestAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None
    assignment: bytes = b""


SYNC_GROUP = Api(
    14,
    "SyncGroup",
    "0-5",
    flexible=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    items_max=FEW_ITEMS_MAX,
    needs="READ on GROUP",
)
