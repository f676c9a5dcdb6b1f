"""ListGroups (key 16): the groups that this broker coordinates. Version 3: flexible. 4: by state (KIP-518)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import CoordinatorLoadInProgress
from ottla.wire.k16_list_groups import LIST_GROUPS, ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(5)


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: ListGroupsRequest = LIST_GROUPS.decode_request(version, request)
    answer = ListGroupsResponse(
        error_code=CoordinatorLoadInProgress.code if broker.groups.is_loading else 0,
        groups=[
            ListedGroup(group_id, protocol_type, state.value)
            for group_id, protocol_type, state in broker.groups.listed(asked.states_filter)
        ],
    )
    reply(broker, request, LIST_GROUPS, answer)
