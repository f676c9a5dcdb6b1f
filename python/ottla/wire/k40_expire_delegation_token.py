"""ExpireDelegationToken: another end for a token, or its end now (KIP-48)."""

from __future__ import annotations

from ottla.wire.schema import Api, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message):
    """A token that is to end."""

    #: The token is named by its secret, not by its id.
    hmac: bytes = b""
    #: From now on, but not beyond the token's maximum. Negative: it ends at once.
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message):
    """The new end."""

    error_code: Int16 = 0
    #: Milliseconds since 1970; -1 after an error.
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
