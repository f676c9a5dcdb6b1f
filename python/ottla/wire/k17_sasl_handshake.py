"""SaslHandshake: chooses a mechanism. Version 0 is followed by bare SASL frames, 1 by SaslAuthenticate (KIP-152). Never
flexible: clients before 2.5 would choose such a version unseen (KAFKA-9577).
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Message


class SaslHandshakeRequest(Message):
    """The choice of a client."""

    #: PLAIN, SCRAM-SHA-256 or the like.
    mechanism: str = ""


class SaslHandshakeResponse(Message):
    """The broker's consent, or what it has instead."""

    #: UNSUPPORTED_SASL_MECHANISM if the broker does not have it; ILLEGAL_SASL_STATE where no authentication is due.
    error_code: Int16 = 0
    #: Those that the listener has; so a client that was refused knows what to choose.
    mechanisms: list[str] = []


SASL_HANDSHAKE = Api(
    17,
    "SaslHandshake",
    "0-1",
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    has_small_answers=True,
    needs="",
)
