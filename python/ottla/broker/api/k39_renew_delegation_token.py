"""RenewDelegationToken (key 39): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.wire.k39_renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    RenewDelegationToken: TypeAlias = "Call[RenewDelegationTokenRequest, RenewDelegationTokenResponse]"


def handle(call: RenewDelegationToken, rooms: object) -> None:
    call.check()
    response = RenewDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowed.code, expiry_timestamp_ms=-1)
    call.reply(response)
