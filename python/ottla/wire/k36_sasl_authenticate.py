"""SaslAuthenticate: one step of a SASL exchange, after SaslHandshake 1 (KIP-152)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int64, Message, V


class SaslAuthenticateRequest(Message):
    """The client's part of a step."""

    #: As the mechanism has them.
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message):
    """The broker's part of a step."""

    error_code: Int16 = 0
    #: For people, which bare SASL frames have no place for.
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: As the mechanism has them.
    auth_bytes: bytes = b""
    #: With the last step: the client has to authenticate anew within so long, on the same connection, or it is closed
    #: (KIP-368). 0: there is no end.
    session_lifetime_ms: Annotated[Int64, V("1+", ignorable=True)] = 0


SASL_AUTHENTICATE = Api(
    36,
    "SaslAuthenticate",
    "0-2",
    flexible=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    needs="",
)
