"""CreateAcls (key 30): there is no authorizer that would heed them, so each is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.errors import SecurityDisabled
from ottla.wire.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    CreateAcls: TypeAlias = "Call[CreateAclsRequest, CreateAclsResponse]"


def handle(call: CreateAcls, rooms: object) -> None:
    asked = call.message
    refused = AclCreationResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    response = CreateAclsResponse(results=[refused] * len(asked.creations))
    call.reply(response)
