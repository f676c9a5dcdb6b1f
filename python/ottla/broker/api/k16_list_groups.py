"""ListGroups (key 16): the groups that this broker coordinates. Version 3: flexible. 4: by state (KIP-518)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.answer_memory import large_answer
from ottla.broker.replies import reply_here
from ottla.errors import CoordinatorLoadInProgress
from ottla.slices import Slices
from ottla.wire.k16_list_groups import LIST_GROUPS, ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext


#: A group in an answer, about.
ROW_BYTES = 64


async def handle(broker: GroupContext, request: Request) -> None:
    """Each group is listed as of its own moment."""
    version = request.api_version
    asked: ListGroupsRequest = LIST_GROUPS.decode_request(version, request)
    rows = len(broker.groups.groups)
    async with large_answer(broker, request, rows, rows * ROW_BYTES):
        await reply_here(broker, request, LIST_GROUPS, await _answer(broker, asked))


async def _answer(broker: GroupContext, asked: ListGroupsRequest) -> ListGroupsResponse:
    answer = ListGroupsResponse(error_code=CoordinatorLoadInProgress.code if broker.groups.is_loading else 0)
    slices = Slices()
    for listed in broker.groups.listed(asked.states_filter):
        await slices.row()
        if listed is not None:
            group_id, protocol_type, state = listed
            answer.groups.append(ListedGroup(group_id, protocol_type, state.value))
    return answer
