"""CreateAcls (key 30): there is no authorizer that would heed them, so each is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.broker.replies import reply
from ottla.errors import SecurityDisabled
from ottla.wire.k30_create_acls import CREATE_ACLS, AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    asked: CreateAclsRequest = CREATE_ACLS.decode_request(version, request)
    refused = AclCreationResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    response = CreateAclsResponse(results=[refused] * len(asked.creations))
    reply(broker, request, CREATE_ACLS, response)
