"""SaslHandshake (key 17): on a connection that needs no authentication it comes at the wrong time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import IllegalSaslState
from ottla.wire.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call

    SaslHandshake: TypeAlias = "Call[SaslHandshakeRequest, SaslHandshakeResponse]"


def handle(call: SaslHandshake, rooms: object) -> None:
    call.check()
    response = SaslHandshakeResponse(error_code=IllegalSaslState.code)
    call.reply(response)
