"""ListGroups: the groups that this broker coordinates. For all groups all brokers are asked."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class ListGroupsRequest(Message):
    """The groups that are asked for."""

    #: Names of states, as DescribeGroups has them (KIP-518). Empty: all groups. Older versions list all.
    states_filter: Annotated[list[str], V("4+")] = []


class ListedGroup(Message):
    """A group."""

    group_id: str = ""
    #: "" for groups that only keep offsets.
    protocol_type: str = ""
    #: As DescribeGroups has it (KIP-518).
    group_state: Annotated[str, V("4+", ignorable=True)] = ""


class ListGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    #: While groups are being loaded COORDINATOR_LOAD_IN_PROGRESS, in Kafka together with those that are there.
    error_code: Int16 = 0
    #: Without DESCRIBE on CLUSTER those that the client may describe.
    groups: list[ListedGroup] = []


LIST_GROUPS = Api(
    16,
    "ListGroups",
    "0-4",
    flexible=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    items_max=FEW_ITEMS_MAX,
    # With the second those groups alone are listed.
    needs="DESCRIBE on CLUSTER or DESCRIBE on GROUP",
)
