"""DeleteGroups: deletes groups that have no members, with their offsets (KIP-229)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Message


class DeleteGroupsRequest(Message):
    """Groups that are to go. All have to be those of the broker that is asked."""

    #: Their ids.
    groups_names: list[str] = []


class DeletableGroupResult(Message):
    """The result for one group."""

    group_id: str = ""
    #: NON_EMPTY_GROUP if it has members, GROUP_ID_NOT_FOUND if there is none.
    error_code: Int16 = 0


class DeleteGroupsResponse(Message):
    """The results."""

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
