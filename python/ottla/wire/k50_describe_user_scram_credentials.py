"""DescribeUserScramCredentials: which SCRAM mechanisms users have (KIP-554). Null asks for all users."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class UserName(Message):
    name: str = ""


class DescribeUserScramCredentialsRequest(Message):
    users: Annotated[list[UserName] | None, V(nullable="0+")] = []


class CredentialInfo(Message):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Message):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    credential_infos: list[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
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
