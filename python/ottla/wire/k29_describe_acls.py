"""DescribeAcls: the access rules that match a filter. Version 1 brings pattern types (KIP-290); 3 is a literal name."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class DescribeAclsRequest(Message):
    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Message):
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[Int8, V("1+")] = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    resources: list[DescribeAclsResource] = []


DESCRIBE_ACLS = Api(
    29,
    "DescribeAcls",
    "0-2",
    flexible=2,
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    items_max=FEW_ITEMS_MAX,
    needs="DESCRIBE on CLUSTER",
)
