"""ListGroups (key 16): the groups that this broker coordinates. Version 3: flexible. 4: by state (KIP-518)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import CoordinatorLoadInProgress
from ottla.slices import Slices
from ottla.wire.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    ListGroups: TypeAlias = "Call[ListGroupsRequest, ListGroupsResponse]"


#: A group in an answer, about.
ROW_BYTES = 64


async def handle(call: ListGroups, rooms: GroupRooms) -> None:
    """Each group is listed as of its own moment."""
    asked = call.message
    rows = len(rooms.groups.groups)
    async with call.large_answer(rows, rows * ROW_BYTES):
        await call.reply_here(await _answer(rooms, asked, call.rights))


async def _answer(rooms: GroupRooms, asked: ListGroupsRequest, rights: Rights | None) -> ListGroupsResponse:
    sees_all = rights is None or rights.might(Operation.DESCRIBE, Resource.CLUSTER)
    is_shown = None if rights is None or sees_all else rights.decider(Operation.DESCRIBE, Resource.GROUP)
    answer = ListGroupsResponse(error_code=CoordinatorLoadInProgress.code if rooms.groups.is_loading else 0)
    slices = Slices()
    for listed in rooms.groups.listed(asked.states_filter):
        await slices.row()
        if listed is not None:
            group_id, protocol_type, state = listed
            if is_shown is not None and not is_shown(group_id):
                continue
            answer.groups.append(ListedGroup(group_id, protocol_type, state.value))
    return answer
