"""CreateAcls: adds access rules."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class AclCreation(Message):
    """A rule to add."""

    #: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token.
    resource_type: Int8 = 0
    #: A name, the beginning of names, or "*". The cluster's is "kafka-cluster", and nothing else.
    resource_name: str = ""
    #: 3 literal, 4 prefixed: the name is the beginning of names (KIP-290). In version 0 rules are literal.
    resource_pattern_type: Annotated[Int8, V("1+")] = 3
    #: Such as "User:alice"; "User:*" is everyone.
    principal: str = ""
    #: The address from which it holds, "*" for all.
    host: str = ""
    #: 2 is all, and from 3 on `ottla.wire.needs.Operation`.
    operation: Int8 = 0
    #: 2 deny, 3 allow. A rule that denies is stronger.
    permission_type: Int8 = 0


class CreateAclsRequest(Message):
    """Rules to add."""

    #: A rule that is there already is no error.
    creations: list[AclCreation] = []


class AclCreationResult(Message):
    """The result for one rule."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class CreateAclsResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: In the order of the rules, which is how a client knows them apart.
    results: list[AclCreationResult] = []


CREATE_ACLS = Api(
    30,
    "CreateAcls",
    "0-2",
    flexible=2,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    items_max=FEW_ITEMS_MAX,
    needs="ALTER on CLUSTER",
)
