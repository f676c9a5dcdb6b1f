"""JoinGroup: a member enters a group, and waits for the others.

Version 1 has a rebalance timeout of its own, 4 hands out a member id before the join (KIP-394), 5 knows static members
(KIP-345), 7 answers with the protocol type (KIP-559).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class JoinGroupRequestProtocol(Message):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("5+", nullable="5+")] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []


class JoinGroupResponseMember(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("5+", nullable="5+")] = None
    metadata: bytes = b""


class JoinGroupResponse(Message):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, V("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, V(nullable="7+")] = ""
    leader: str = ""
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


JOIN_GROUP = Api(
    11,
    "JoinGroup",
    "0-7",
    flexible=6,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    items_max=FEW_ITEMS_MAX,
    needs="READ on GROUP",
)
