"""SaslAuthenticate: one step of a SASL exchange. Version 1 says how long the session lasts (KIP-368)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int64, Message, V


class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    auth_bytes: bytes = b""
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
