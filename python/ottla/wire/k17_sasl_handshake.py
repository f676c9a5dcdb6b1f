"""SaslHandshake: chooses a mechanism. Version 0 is followed by bare SASL frames, 1 by SaslAuthenticate. Never
flexible.
"""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Message


class SaslHandshakeRequest(Message):
    mechanism: str = ""


class SaslHandshakeResponse(Message):
    error_code: Int16 = 0
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
