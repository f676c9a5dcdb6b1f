"""CreateDelegationToken (key 38): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.kafka import ANONYMOUS
from ottla.wire.k38_create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    CreateDelegationToken: TypeAlias = "Call[CreateDelegationTokenRequest, CreateDelegationTokenResponse]"


def handle(call: CreateDelegationToken, rooms: object) -> None:
    call.check()
    response = CreateDelegationTokenResponse(
        error_code=DelegationTokenRequestNotAllowed.code,
        principal_type="User",
        principal_name=ANONYMOUS,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    call.reply(response)
