"""RenewDelegationToken: a later end for a token (KIP-48)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class RenewDelegationTokenRequest(Message):
    hmac: bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


RENEW_DELEGATION_TOKEN = Api(
    39,
    "RenewDelegationToken",
    "0-2",
    flexible=2,
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    # Owners and renewers of a token may.
    needs="",
)
