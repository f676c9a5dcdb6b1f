"""ListGroups: the groups that this broker coordinates. Version 4 brings states (KIP-518)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Message, V


class ListGroupsRequest(Message):
    states_filter: Annotated[list[str], V("4+")] = []


class ListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, V("4+", ignorable=True)] = ""


class ListGroupsResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
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
