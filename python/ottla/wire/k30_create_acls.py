"""CreateAcls. Version 1 brings pattern types (KIP-290)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class AclCreation(Message):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Annotated[Int8, V("1+")] = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message):
    creations: list[AclCreation] = []


class AclCreationResult(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class CreateAclsResponse(Message):
    throttle_time_ms: Int32 = 0
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
