"""CreateDelegationToken (key 38): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.kafka import ANONYMOUS
from ottla.wire.k38_create_delegation_token import CREATE_DELEGATION_TOKEN, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    CREATE_DELEGATION_TOKEN.decode_request(version, request)
    response = CreateDelegationTokenResponse(
        error_code=DelegationTokenRequestNotAllowed.code,
        principal_type="User",
        principal_name=ANONYMOUS,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    reply(broker, request, CREATE_DELEGATION_TOKEN, response)
