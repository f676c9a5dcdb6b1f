"""SaslAuthenticate (key 36): on a connection that needs no authentication it comes at the wrong time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replies import reply
from ottla.errors import IllegalSaslState
from ottla.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext


def handle(broker: AnswerContext, request: Request) -> None:
    version = request.api_version
    SASL_AUTHENTICATE.decode_request(version, request)
    response = SaslAuthenticateResponse(
        error_code=IllegalSaslState.code,
        error_message=f"Listener {request.listener} needs no authentication: use security.protocol=PLAINTEXT.",
    )
    reply(broker, request, SASL_AUTHENTICATE, response)
