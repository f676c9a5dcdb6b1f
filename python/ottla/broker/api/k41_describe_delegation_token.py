"""DescribeDelegationToken (key 41): on a connection that nobody has authenticated there are no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import DelegationTokenRequestNotAllowed
from ottla.wire.k41_describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    DescribeDelegationToken: TypeAlias = "Call[DescribeDelegationTokenRequest, DescribeDelegationTokenResponse]"


def handle(call: DescribeDelegationToken, rooms: object) -> None:
    call.check()
    response = DescribeDelegationTokenResponse(error_code=DelegationTokenRequestNotAllowed.code)
    call.reply(response)
