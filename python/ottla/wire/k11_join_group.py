"""JoinGroup: a member enters a group, and waits for the others.

The answer comes when all have joined, or when the rebalance timeout is over. Since version 4 a member without an id is
first refused with MEMBER_ID_REQUIRED and an id to come back with, so that members that are not there do not pile up
(KIP-394).
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class JoinGroupRequestProtocol(Message):
    """A way of sharing the work, such as an assignor of consumers."""

    #: Chosen is one that all members have, by the votes of their orders.
    name: str = ""
    #: For the group's leader, such as a consumer's topics. Coordinators do not read it, except that they look for the
    #: topics of consumers before they forget their offsets.
    metadata: bytes = b""


class JoinGroupRequest(Message):
    """A member that comes, or comes again."""

    group_id: str = ""
    #: A member is given up after so long without a heartbeat. It has to be within the broker's
    #: group.min.session.timeout.ms and group.max.session.timeout.ms.
    session_timeout_ms: Int32 = 0
    #: How long the coordinator waits for this member to join again; of a group the largest counts. Version 0 has no
    #: such field, and `session_timeout_ms` counts for both (KIP-62).
    rebalance_timeout_ms: Annotated[Int32, V("1+", ignorable=True)] = -1
    #: "" the first time, and then the one that was answered.
    member_id: str = ""
    #: The name of a static member, which after a restart gets its place and assignment back without a rebalance. Null
    #: for others (KIP-345).
    group_instance_id: Annotated[str | None, V("5+", nullable="5+")] = None
    #: "consumer", "connect" or the like. Members of one group have the same.
    protocol_type: str = ""
    #: Those that the member has, the best first. Without one it is refused.
    protocols: list[JoinGroupRequestProtocol] = []


class JoinGroupResponseMember(Message):
    """A member, as told to the leader."""

    #: The leader assigns by it.
    member_id: str = ""
    #: Null unless the member is static. Assignors that order members by it keep assignments stable.
    group_instance_id: Annotated[str | None, V("5+", nullable="5+")] = None
    #: Of the protocol that was chosen.
    metadata: bytes = b""


class JoinGroupResponse(Message):
    """The new generation."""

    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    #: Counts up with each rebalance; -1 after an error.
    generation_id: Int32 = -1
    #: Lets a client notice that it has joined a group of another kind (KIP-559).
    protocol_type: Annotated[str | None, V("7+", nullable="7+", ignorable=True)] = None
    #: The protocol that was chosen. Without one it is null, and "" before version 7.
    protocol_name: Annotated[str | None, V(nullable="7+")] = ""
    #: The member that has to make the assignments.
    leader: str = ""
    #: With MEMBER_ID_REQUIRED the one to come back with.
    member_id: str = ""
    #: To the leader all members, to others none.
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
