"""DeleteAcls: deletes the access rules that match filters."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class DeleteAclsFilter(Message):
    """A filter, as in DescribeAcls."""

    #: As in DescribeAcls.
    resource_type_filter: Int8 = 0
    #: As in DescribeAcls; null matches any name.
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: As in DescribeAcls (KIP-290).
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    #: As in DescribeAcls; null matches anyone.
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: As in DescribeAcls; null matches any.
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: As in DescribeAcls.
    operation: Int8 = 0
    #: As in DescribeAcls.
    permission_type: Int8 = 0


class DeleteAclsRequest(Message):
    """Filters whose rules are to go."""

    #: Rules that one of them matches are deleted.
    filters: list[DeleteAclsFilter] = []


class DeleteAclsMatchingAcl(Message):
    """A rule that matched, as in DescribeAcls."""

    #: 0: it is gone.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: As in DescribeAcls.
    resource_type: Int8 = 0
    #: As in DescribeAcls.
    resource_name: str = ""
    #: As in DescribeAcls (KIP-290).
    pattern_type: Annotated[Int8, V("1+")] = 3
    #: As in DescribeAcls.
    principal: str = ""
    #: The address from which it held, "*" for all.
    host: str = ""
    #: As in DescribeAcls.
    operation: Int8 = 0
    #: As in DescribeAcls.
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Message):
    """The rules of one filter."""

    #: Of the filter; a filter that matches nothing is no error.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: The rules that matched, each with its own result.
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: In the order of the filters.
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
