"""SCRAM credentials of users, as Kafka keeps them in `/config/users/USER`: salt, two keys and the iterations, never the
password (RFC 5802, KIP-84, KIP-554).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

ITERATIONS_MAX = 16384


class Mechanism(IntEnum):
    """By the number on the wire."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def setting(self) -> str:
        """The mechanism's name, which is that of the user's setting too."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return f"sha{self.setting.rpartition('-')[2]}"

    @property
    def digest_bytes(self) -> int:
        return hashlib.new(self.digest).digest_size


def mechanism(number: int) -> Mechanism | None:
    return Mechanism(number) if number in tuple(Mechanism) else None


def has_place(user: str) -> bool:
    """True if the coordination tree can have settings of such a user: the name is a part of a path."""
    return user not in ("", ".", "..")


def credential(kind: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """The text of a credential."""
    client_key = hmac.digest(salted_password, b"Client Key", kind.digest)
    stored_key = hashlib.new(kind.digest, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", kind.digest)
    salt_text, stored_text, server_text = (base64.b64encode(one).decode() for one in (salt, stored_key, server_key))
    return f"salt={salt_text},stored_key={stored_text},server_key={server_text},iterations={iterations}"


class Credential(NamedTuple):
    """All that is stored of a password. The keys are as long as the mechanism's hash."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credentials_of(config: Mapping[str, str]) -> dict[Mechanism, Credential]:
    """The credentials among the settings of a user. Raises ValueError for what is none."""
    return {kind: _credential(kind, config[kind.setting]) for kind in Mechanism if kind.setting in config}


def _credential(kind: Mechanism, text: str) -> Credential:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored, server = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        found = Credential(salt, stored, server, int(fields["iterations"]))
    except (KeyError, ValueError):
        raise ValueError(f"no credential: {kind.setting}") from None
    if not len(stored) == len(server) == kind.digest_bytes:
        raise ValueError(f"no credential: {kind.setting}, whose keys are not as long as its hash")
    return found
