"""RenewDelegationToken: a later end for a token (KIP-48)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class RenewDelegationTokenRequest(Message):
    """A token that is to live on."""

    #: The token is named by its secret, not by its id.
    hmac: bytes = b""
    #: From now on, but not beyond the token's maximum. Negative: delegation.token.expiry.time.ms.
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message):
    """The new end."""

    error_code: Int16 = 0
    #: Milliseconds since 1970; -1 after an error.
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
