"""DeleteGroups: deletes groups that have no members."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Message


class DeleteGroupsRequest(Message):
    groups_names: list[str] = []


class DeletableGroupResult(Message):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []


DELETE_GROUPS = Api(
    42,
    "DeleteGroups",
    "0-2",
    flexible=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    needs="DELETE on GROUP",
)
