"""DescribeDelegationToken (key 41): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.wire.k41_describe_delegation_token import DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    DESCRIBE_DELEGATION_TOKEN.decode_request(version, request)
    response = DescribeDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowed.code)
    reply(broker, request, DESCRIBE_DELEGATION_TOKEN, response)
