"""DeleteAcls: deletes the access rules that match filters. Version 1 brings pattern types (KIP-290)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class DeleteAclsFilter(Message):
    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Message):
    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, V("1+")] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []


DELETE_ACLS = Api(
    31,
    "DeleteAcls",
    "0-2",
    flexible=2,
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    items_max=FEW_ITEMS_MAX,
    needs="ALTER on CLUSTER",
)
