"""CreateDelegationToken: a token that stands for its owner, whom others may let renew it (KIP-48).

Whoever is authenticated by a token, or not at all, gets none (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED).
"""

from __future__ import annotations

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message


class CreatableRenewer(Message):
    """A user who may renew the token, as its owner may."""

    #: "User"; anything else is INVALID_PRINCIPAL_TYPE.
    principal_type: str = ""
    #: The user's name.
    principal_name: str = ""


class CreateDelegationTokenRequest(Message):
    """A token for the client itself."""

    #: Empty: the owner alone.
    renewers: list[CreatableRenewer] = []
    #: From now on. -1, or more than delegation.token.max.lifetime.ms, is taken for that.
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Message):
    """The token."""

    error_code: Int16 = 0
    #: The owner's, "User" as a rule.
    principal_type: str = ""
    #: The owner's.
    principal_name: str = ""
    #: Milliseconds since 1970; -1 after an error, as both below.
    issue_timestamp_ms: Int64 = 0
    #: Unless it is renewed before, the token ends then: delegation.token.expiry.time.ms from now.
    expiry_timestamp_ms: Int64 = 0
    #: Nobody can renew it beyond that.
    max_timestamp_ms: Int64 = 0
    #: With it as user name, and `hmac` in base64 as password, its bearer authenticates by SCRAM.
    token_id: str = ""
    #: The secret. Whoever has it can renew or end the token, if they are the owner or a renewer.
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0


CREATE_DELEGATION_TOKEN = Api(
    38,
    "CreateDelegationToken",
    "0-2",
    flexible=2,
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
    items_max=FEW_ITEMS_MAX,
    # Whoever is authenticated may have tokens for itself.
    needs="",
)
