"""DeleteAcls (key 31): there is no authorizer and no access rule, so each filter is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.broker.replies import reply
from ottla.errors import SecurityDisabled
from ottla.wire.k31_delete_acls import DELETE_ACLS, DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    asked: DeleteAclsRequest = DELETE_ACLS.decode_request(version, request)
    refused = DeleteAclsFilterResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    response = DeleteAclsResponse(filter_results=[refused] * len(asked.filters))
    reply(broker, request, DELETE_ACLS, response)
