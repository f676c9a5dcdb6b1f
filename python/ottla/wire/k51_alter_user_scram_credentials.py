"""AlterUserScramCredentials: sets and deletes SCRAM credentials (KIP-554).

Only the controller does it. Of one user all changes are made, or none.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import FEW_ITEMS_MAX, Api, Int8, Int16, Int32, Message, V


class ScramCredentialDeletion(Message):
    """A credential that is to go."""

    name: str = ""
    #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512. A user without it is RESOURCE_NOT_FOUND.
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Message):
    """A credential to set, in place of one of the same mechanism."""

    name: str = ""
    #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    mechanism: Int8 = 0
    #: From 4096 to 16384; otherwise UNACCEPTABLE_CREDENTIAL.
    iterations: Int32 = 0
    #: Chosen by the client, at random.
    salt: bytes = b""
    #: Hashed by the client as often as `iterations` says (RFC 5802), so that brokers never see the password.
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Message):
    """Changes of credentials."""

    #: Of any users.
    deletions: list[ScramCredentialDeletion] = []
    #: Of any users. A credential that is changed twice is DUPLICATE_RESOURCE.
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Message):
    """The result for one user."""

    #: The user's name.
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Message):
    """The results."""

    throttle_time_ms: Int32 = 0
    #: One for each user, however many changes the request has.
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
