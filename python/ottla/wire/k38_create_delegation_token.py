"""CreateDelegationToken: a token that stands for its owner, whom others may let renew it (KIP-48)."""

from __future__ import annotations

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message


class CreatableRenewer(Message):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(Message):
    renewers: list[CreatableRenewer] = []
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Message):
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
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
