"""PLAIN: the client sends user and password (RFC 4616). The passwords stand in the listener's settings.

Kafka does not prepare names and passwords (SASLprep), so they are compared as they come.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.broker.authentication.exchange import Refused

NAME = "PLAIN"
_TOKENS = 3


class Plain:
    """passwords: By user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.user: str | None = None
        self.claimed: str | None = None
        self.ends_at_s: float | None = None
        self._passwords = passwords

    def step(self, token: bytes) -> bytes:
        parts = token.decode(errors="replace").split("\0", _TOKENS)
        if len(parts) != _TOKENS:
            raise _told(f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(parts)}")
        authorization_id, user, password = parts
        self.claimed = user or None
        for name, value in (("username", user), ("password", password)):
            if not value:
                raise _told(f"Authentication failed: {name} not specified")
        expected = self._passwords.get(user)
        # An unknown user takes as long as a known one.
        is_right = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not is_right:
            told = "Authentication failed: Invalid username or password"
            raise Refused("no such user" if expected is None else f"wrong password of '{user}'", told)
        if authorization_id not in ("", user):
            raise _told("Authentication failed: Client requested an authorization id that is different from username")
        self.user = user
        return b""


def _told(reason: str) -> Refused:
    return Refused(reason, reason)
