"""Users with SCRAM credentials, asked of and changed in a cluster (KIP-554). Passwords never leave this process."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.client.answers import row_about
from ottla.client.cluster import Cluster
from ottla.errors import UnsupportedSaslMechanism, check, error
from ottla.kafka import SCRAM_ITERATIONS_MIN
from ottla.wire.k50_describe_user_scram_credentials import (
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    UserName,
)
from ottla.wire.k51_alter_user_scram_credentials import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

#: By name: the number on the wire, and the hash.
MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
#: No cluster takes more.
_ITERATIONS_MAX: Final = 16384
SALT_BYTES: Final = 32

Credentials = Mapping[str, int]
"""The mechanisms for which a user has a credential, and the iterations of each."""


class UserAdmin:
    """The questions and orders of an administrator about users."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def users(self, names: Iterable[str] | None = None) -> dict[str, Credentials]:
        """Returns the credentials of these users, or of all that have any.

        Raises:
            ResourceNotFound: one of the names has none.
        """
        asked = None if names is None else [UserName(name) for name in dict.fromkeys(names)]
        answer = await self.cluster.call_any(
            DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=asked)
        )
        check(answer.error_code, answer.error_message)
        found: dict[str, Credentials] = {}
        by_number = {number: name for name, (number, _) in MECHANISMS.items()}
        for row in answer.results:
            if row.error_code:
                raise error(row.error_code, f"user '{row.user}': {row.error_message}")
            infos = row.credential_infos
            found[row.user] = {by_number.get(each.mechanism, str(each.mechanism)): each.iterations for each in infos}
        return found

    async def set_password(
        self,
        user: str,
        password: str,
        mechanisms: Collection[str] = tuple(MECHANISMS),
        iterations: int = SCRAM_ITERATIONS_MIN,
    ) -> None:
        """Stores credentials for these mechanisms, in place of those that the user has. A new salt is made for each.

        Raises:
            UnacceptableCredential: fewer than 4096 iterations, or more than 16384.
            UnsupportedSaslMechanism: there is no such mechanism.
        """
        rows = []
        for mechanism in mechanisms:
            number, digest = _known(mechanism)
            salt = secrets.token_bytes(SALT_BYTES)
            # A number that the cluster refuses does not keep this process busy first.
            salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, max(1, min(iterations, _ITERATIONS_MAX)))
            rows.append(ScramCredentialUpsertion(user, number, iterations, salt, salted))
        await self._alter(user, AlterUserScramCredentialsRequest(upsertions=rows))

    async def remove(self, user: str, mechanisms: Collection[str] | None = None) -> None:
        """Removes credentials of a user: those of these mechanisms, or all.

        Raises:
            ResourceNotFound: the user has none.
        """
        if mechanisms is None:
            mechanisms = (await self.users([user]))[user].keys()
        rows = [ScramCredentialDeletion(user, _known(mechanism)[0]) for mechanism in mechanisms]
        await self._alter(user, AlterUserScramCredentialsRequest(deletions=rows))

    async def _alter(self, user: str, request: AlterUserScramCredentialsRequest) -> None:
        what = f"user '{user}'"
        answer = await self.cluster.call_controller(
            ALTER_USER_SCRAM_CREDENTIALS, request, lambda answer: row_about(what, answer.results).error_code
        )
        row = row_about(what, answer.results)
        if row.error_code:
            raise error(row.error_code, f"{what}: {row.error_message}")


def _known(mechanism: str) -> tuple[int, str]:
    found = MECHANISMS.get(mechanism)
    if found is None:
        raise UnsupportedSaslMechanism(f"no mechanism is called {mechanism}; there are {', '.join(MECHANISMS)}")
    return found
