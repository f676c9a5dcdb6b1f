"""DescribeGroups: state and members of groups. Version 3 brings the allowed operations (KIP-430), 4 static members."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class DescribeGroupsRequest(Message):
    groups: list[str] = []
    include_authorized_operations: Annotated[bool, V("3+")] = False


class DescribedGroupMember(Message):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("4+", nullable="4+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    error_code: Int16 = 0
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[Int32, V("3+")] = -(2**31)


class DescribeGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    groups: list[DescribedGroup] = []


DESCRIBE_GROUPS = Api(
    15,
    "DescribeGroups",
    "0-5",
    flexible=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    needs="DESCRIBE on GROUP",
)
