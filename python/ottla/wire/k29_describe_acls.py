"""DescribeAcls: the access rules that match a filter."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class DescribeAclsRequest(Message):
    """A filter. A rule has to match in all parts."""

    #: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token.
    resource_type_filter: Int8 = 0
    #: Null matches any name.
    resource_name_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: 3 literal, 4 prefixed, 1 any of these, 2 all rules that hold for a resource of this name: "*" and prefixes as
    #: well (KIP-290). In version 0 rules were literal.
    pattern_type_filter: Annotated[Int8, V("1+")] = 3
    #: Such as "User:alice". Null matches anyone.
    principal_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: An address or "*", as the rule has it. Null matches any.
    host_filter: Annotated[str | None, V(nullable="0+")] = ""
    #: 1 any, 2 the rules that say "all", and from 3 on `ottla.wire.needs.Operation`.
    operation: Int8 = 0
    #: 1 any, 2 deny, 3 allow.
    permission_type: Int8 = 0


class AclDescription(Message):
    """A rule."""

    #: Such as "User:alice"; "User:*" is everyone.
    principal: str = ""
    #: The address from which it holds, "*" for all.
    host: str = ""
    #: 2 is all, and from 3 on `ottla.wire.needs.Operation`.
    operation: Int8 = 0
    #: 2 deny, 3 allow.
    permission_type: Int8 = 0


class DescribeAclsResource(Message):
    """A resource, or a pattern for resources, and its rules."""

    #: By the numbers of the filter.
    resource_type: Int8 = 0
    #: A name, the beginning of names, or "*". The cluster's is "kafka-cluster".
    resource_name: str = ""
    #: 3 literal, 4 prefixed: the name is the beginning of names (KIP-290).
    pattern_type: Annotated[Int8, V("1+")] = 3
    #: The rules that match.
    acls: list[AclDescription] = []


class DescribeAclsResponse(Message):
    """The rules that match."""

    throttle_time_ms: Int32 = 0
    #: SECURITY_DISABLED where there is no authorizer.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: Those with at least one rule that matches.
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
