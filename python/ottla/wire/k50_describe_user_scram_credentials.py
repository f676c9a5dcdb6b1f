"""DescribeUserScramCredentials: which SCRAM mechanisms users have (KIP-554). Nothing of the passwords is told."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class UserName(Message):
    """A user that is asked about."""

    name: str = ""


class DescribeUserScramCredentialsRequest(Message):
    """Users that are asked about."""

    #: Null or empty asks for all. A user that is named twice is DUPLICATE_RESOURCE.
    users: Annotated[list[UserName] | None, V(nullable="0+")] = []


class CredentialInfo(Message):
    """A credential."""

    #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    mechanism: Int8 = 0
    #: How often the password was hashed.
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Message):
    """A user."""

    #: The user's name.
    user: str = ""
    #: RESOURCE_NOT_FOUND for a user without credentials, if asked for by name.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    #: One for each mechanism.
    credential_infos: list[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Message):
    """The users."""

    throttle_time_ms: Int32 = 0
    #: Of the request, without rows.
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    results: list[DescribeUserScramCredentialsResult] = []


DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    50,
    "DescribeUserScramCredentials",
    "0",
    flexible=0,
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    items_max=FEW_ITEMS_MAX,
    needs="DESCRIBE on CLUSTER",
)
