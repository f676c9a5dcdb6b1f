"""AlterUserScramCredentials: sets and deletes SCRAM credentials (KIP-554)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class ScramCredentialDeletion(Message):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Message):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Message):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []


ALTER_USER_SCRAM_CREDENTIALS = Api(
    51,
    "AlterUserScramCredentials",
    "0",
    flexible=0,
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    items_max=FEW_ITEMS_MAX,
    needs="ALTER on CLUSTER",
)
