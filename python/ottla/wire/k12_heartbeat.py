"""Heartbeat: a member of a group is alive, and hears if its group rebalances."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Message, V


class HeartbeatRequest(Message):
    """A member that is alive."""

    group_id: str = ""
    #: The generation that the member is in. Another one than the group's is ILLEGAL_GENERATION.
    generation_id: Int32 = 0
    #: One that is not known has to join anew (UNKNOWN_MEMBER_ID).
    member_id: str = ""
    #: The name of a static member: if another process has taken its place, it hears FENCED_INSTANCE_ID. Null for others
    #: (KIP-345).
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None


class HeartbeatResponse(Message):
    """The answer to a member: it may go on, or has to join again."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: REBALANCE_IN_PROGRESS is how members hear that they have to join again.
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
