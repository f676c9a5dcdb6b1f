"""DescribeDelegationToken: the tokens of some owners, or all that may be seen (KIP-48)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int16, Int32, Int64, Message, V


class DescribeDelegationTokenOwner(Message):
    """A user: asked for are the tokens that they own, or may renew."""

    #: "User".
    principal_type: str = ""
    #: The user's name.
    principal_name: str = ""


class DescribeDelegationTokenRequest(Message):
    """Users whose tokens are asked for."""

    #: Null asks for all that the client may see, an empty list for none.
    owners: Annotated[list[DescribeDelegationTokenOwner] | None, V(nullable="0+")] = []


class DescribedDelegationTokenRenewer(Message):
    """A user who may renew the token, besides its owner."""

    #: "User".
    principal_type: str = ""
    #: The user's name.
    principal_name: str = ""


class DescribedDelegationToken(Message):
    """A token."""

    #: The owner's, "User" as a rule.
    principal_type: str = ""
    #: The owner's.
    principal_name: str = ""
    #: Milliseconds since 1970, as both below.
    issue_timestamp: Int64 = 0
    #: Unless it is renewed before, the token ends then.
    expiry_timestamp: Int64 = 0
    #: Nobody can renew it beyond that.
    max_timestamp: Int64 = 0
    #: The user name of its bearer.
    token_id: str = ""
    #: The secret is told, so that whoever may describe a token may use it.
    hmac: bytes = b""
    #: Empty: the owner alone.
    renewers: list[DescribedDelegationTokenRenewer] = []


class DescribeDelegationTokenResponse(Message):
    """The tokens."""

    error_code: Int16 = 0
    #: Those of the client itself, those that it may renew, and those that it may describe.
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
