"""DeleteGroups (key 42): deletes groups that have no members, with their offsets. Version 2: flexible."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import GroupAuthorizationFailed
from ottla.slices import Slices
from ottla.wire.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    DeleteGroups: TypeAlias = "Call[DeleteGroupsRequest, DeleteGroupsResponse]"


async def handle(call: DeleteGroups, rooms: GroupRooms) -> None:
    """A group that is named twice is deleted once, and answered once."""
    asked = call.message
    rows: dict[str, DeletableGroupResult] = {}
    # The request itself is waited for, too, until all of its groups are under way.
    waiting = 1

    def done(row: DeletableGroupResult, error: int) -> None:
        row.error_code = error
        finished()

    def finished() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            call.reply(DeleteGroupsResponse(results=list(rows.values())))

    rights, slices = call.rights, Slices()
    for group_id in asked.groups_names:
        await slices.row()
        if group_id not in rows:
            row = rows[group_id] = DeletableGroupResult(group_id)
            if rights is not None and not rights.may(Operation.DELETE, Resource.GROUP, group_id):
                row.error_code = GroupAuthorizationFailed.code
                continue
            waiting += 1
            rooms.groups.removal.delete(group_id, partial(done, row))
    finished()
