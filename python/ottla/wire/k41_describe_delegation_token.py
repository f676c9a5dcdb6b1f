"""DescribeDelegationToken: the tokens of some owners, or all that may be seen (KIP-48)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class DescribeDelegationTokenOwner(Message):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(Message):
    owners: Annotated[list[DescribeDelegationTokenOwner] | None, V(nullable="0+")] = []


class DescribedDelegationTokenRenewer(Message):
    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(Message):
    principal_type: str = ""
    principal_name: str = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


class DescribeDelegationTokenResponse(Message):
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0


DESCRIBE_DELEGATION_TOKEN = Api(
    41,
    "DescribeDelegationToken",
    "0-2",
    flexible=2,
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    items_max=FEW_ITEMS_MAX,
    # Owners and renewers of a token may without.
    needs="DESCRIBE on DELEGATION_TOKEN",
)
