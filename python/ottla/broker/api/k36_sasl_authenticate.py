"""SaslAuthenticate (key 36): on a connection that needs no authentication it comes at the wrong time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import IllegalSaslState
from ottla.wire.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    SaslAuthenticate: TypeAlias = "Call[SaslAuthenticateRequest, SaslAuthenticateResponse]"


def handle(call: SaslAuthenticate, rooms: object) -> None:
    call.check()
    response = SaslAuthenticateResponse(
        error_code=IllegalSaslState.code,
        error_message=f"Listener {call.session.listener} needs no authentication: use security.protocol=PLAINTEXT.",
    )
    call.reply(response)
