"""DeleteAcls (key 31): there is no authorizer and no access rule, so each filter is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.api.k29_describe_acls import NO_AUTHORIZER
from ottla.errors import SecurityDisabled
from ottla.wire.k31_delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    DeleteAcls: TypeAlias = "Call[DeleteAclsRequest, DeleteAclsResponse]"


def handle(call: DeleteAcls, rooms: object) -> None:
    asked = call.message
    refused = DeleteAclsFilterResult(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    response = DeleteAclsResponse(filter_results=[refused] * len(asked.filters))
    call.reply(response)
