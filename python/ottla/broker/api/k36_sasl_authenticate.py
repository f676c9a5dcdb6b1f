"""SaslAuthenticate (key 36): a client goes on to prove who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.wire.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AuthenticationRooms

    SaslAuthenticate: TypeAlias = "Call[SaslAuthenticateRequest, SaslAuthenticateResponse]"


def handle(call: SaslAuthenticate, rooms: AuthenticationRooms) -> None:
    rooms.authentication.authenticate(call)
