"""DescribeGroups: state and members of groups, from their coordinator."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class DescribeGroupsRequest(Message):
    """Groups that are asked about."""

    #: Their ids.
    groups: list[str] = []
    #: Asks for the bits below, which take time to find out (KIP-430).
    include_authorized_operations: Annotated[bool, V("3+")] = False


class DescribedGroupMember(Message):
    """A member of a group."""

    #: The id that its coordinator gave it.
    member_id: str = ""
    #: The name of a static member; null for others (KIP-345).
    group_instance_id: Annotated[str | None, V("4+", nullable="4+", ignorable=True)] = None
    #: As in the header of its JoinGroup.
    client_id: str = ""
    #: The address it came from, with Java's "/" in front.
    client_host: str = ""
    #: Its metadata for the group's protocol, as in JoinGroup. Empty unless the group is Stable.
    member_metadata: bytes = b""
    #: As the leader gave it. Empty unless the group is Stable.
    member_assignment: bytes = b""


class DescribedGroup(Message):
    """A group with its members."""

    error_code: Int16 = 0
    group_id: str = ""
    #: PreparingRebalance, CompletingRebalance, Stable, Empty or Dead. A group that does not exist is Dead, without an
    #: error.
    group_state: str = ""
    #: "consumer" or the like; "" for groups that only keep offsets.
    protocol_type: str = ""
    #: The name of the protocol that was chosen. "" unless the group is Stable.
    protocol_data: str = ""
    #: None if the group is Empty or Dead.
    members: list[DescribedGroupMember] = []
    #: One bit for each AclOperation, at the place of its number. -2147483648 if it was not asked for.
    authorized_operations: Annotated[Int32, V("3+")] = -(2**31)


class DescribeGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: A row for each id, with its own error.
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
