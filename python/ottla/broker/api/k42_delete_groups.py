"""DeleteGroups (key 42): deletes groups that have no members, with their offsets. Version 2: flexible."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.slices import Slices
from ottla.wire.k42_delete_groups import (
    DELETE_GROUPS,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext


async def handle(broker: GroupContext, request: Request) -> None:
    """A group that is named twice is deleted once, and answered once."""
    asked: DeleteGroupsRequest = DELETE_GROUPS.decode_request(request.api_version, request)
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
            reply(broker, request, DELETE_GROUPS, DeleteGroupsResponse(results=list(rows.values())))

    slices = Slices()
    for group_id in asked.groups_names:
        await slices.row()
        if group_id not in rows:
            row = rows[group_id] = DeletableGroupResult(group_id)
            waiting += 1
            broker.groups.removal.delete(group_id, partial(done, row))
    finished()
