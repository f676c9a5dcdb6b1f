"""SaslHandshake (key 17): a client says by which mechanism it will prove who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.wire.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AuthenticationRooms

    SaslHandshake: TypeAlias = "Call[SaslHandshakeRequest, SaslHandshakeResponse]"


def handle(call: SaslHandshake, rooms: AuthenticationRooms) -> None:
    rooms.authentication.handshake(call)
