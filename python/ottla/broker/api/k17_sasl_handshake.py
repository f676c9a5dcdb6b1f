"""SaslHandshake (key 17): on a connection that needs no authentication it comes at the wrong time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import IllegalSaslState
from ottla.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    SASL_HANDSHAKE.decode_request(version, request)
    response = SaslHandshakeResponse(error_code=IllegalSaslState.code)
    reply(broker, request, SASL_HANDSHAKE, response)
