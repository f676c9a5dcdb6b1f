"""ExpireDelegationToken (key 40): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.wire.k40_expire_delegation_token import EXPIRE_DELEGATION_TOKEN, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    EXPIRE_DELEGATION_TOKEN.decode_request(version, request)
    response = ExpireDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowed.code, expiry_timestamp_ms=-1)
    reply(broker, request, EXPIRE_DELEGATION_TOKEN, response)
