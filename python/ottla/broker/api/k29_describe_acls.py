"""DescribeAcls (key 29): there is no authorizer, so there are no access rules, and this says so as Kafka does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.errors import SecurityDisabled
from ottla.wire.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    DescribeAcls: TypeAlias = "Call[DescribeAclsRequest, DescribeAclsResponse]"

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."


def handle(call: DescribeAcls, rooms: object) -> None:
    call.check()
    response = DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    call.reply(response)
