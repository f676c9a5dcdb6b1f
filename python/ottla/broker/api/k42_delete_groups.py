"""DeleteGroups (key 42): deletes groups that have no members, with their offsets. Version 2: flexible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.pace import reply
from ottla.wire.k42_delete_groups import (
    DELETE_GROUPS,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(3)


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: DeleteGroupsRequest = DELETE_GROUPS.decode_request(version, request)
    rows = [DeletableGroupResult(group_id) for group_id in dict.fromkeys(asked.groups_names)]
    waiting = {row.group_id for row in rows}

    def done(row: DeletableGroupResult, error: int) -> None:
        row.error_code = error
        waiting.discard(row.group_id)
        if not waiting:
            reply(broker, request, DELETE_GROUPS, DeleteGroupsResponse(results=rows))

    if not rows:
        return reply(broker, request, DELETE_GROUPS, DeleteGroupsResponse())
    for row in rows:
        broker.groups.removal.delete(row.group_id, lambda error, row=row: done(row, error))  # type: ignore[misc]
    return None
