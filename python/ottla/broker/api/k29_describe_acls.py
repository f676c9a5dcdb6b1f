"""DescribeAcls (key 29): there is no authorizer, so there are no access rules, and this says so as Kafka does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.replies import reply
from ottla.errors import SecurityDisabled
from ottla.wire.k29_describe_acls import DESCRIBE_ACLS, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker."


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    DESCRIBE_ACLS.decode_request(version, request)
    response = DescribeAclsResponse(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER)
    reply(broker, request, DESCRIBE_ACLS, response)
