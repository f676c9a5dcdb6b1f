"""ExpireDelegationToken (key 40): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.wire.k40_expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    ExpireDelegationToken: TypeAlias = "Call[ExpireDelegationTokenRequest, ExpireDelegationTokenResponse]"


def handle(call: ExpireDelegationToken, rooms: object) -> None:
    call.check()
    response = ExpireDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowed.code, expiry_timestamp_ms=-1)
    call.reply(response)
