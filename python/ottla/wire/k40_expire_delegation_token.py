"""ExpireDelegationToken: an earlier end for a token, or its end now (KIP-48)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message):
    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


EXPIRE_DELEGATION_TOKEN = Api(
    40,
    "ExpireDelegationToken",
    "0-2",
    flexible=2,
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
    # Owners and renewers of a token may.
    needs="",
)
