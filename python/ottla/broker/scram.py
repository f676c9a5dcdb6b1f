"""SCRAM credentials of users, as Kafka keeps them in `/config/users/USER`: salt, two keys and the iterations, never the
password (RFC 5802, KIP-84, KIP-554).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from enum import IntEnum

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


def iterations_of(config: Mapping[str, str]) -> dict[Mechanism, int]:
    """The mechanisms for which a user has a credential, with their iterations. Raises ValueError for what is none."""
    found = {}
    for kind in Mechanism:
        text = config.get(kind.setting)
        if text is not None:
            fields = dict(part.partition("=")[::2] for part in text.split(","))
            if not fields.keys() >= {"salt", "stored_key", "server_key", "iterations"}:
                raise ValueError(f"no credential: {kind.setting}")
            found[kind] = int(fields["iterations"])
    return found
