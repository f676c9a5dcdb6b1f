"""A client that says each word on its way in by itself."""

from __future__ import annotations

import contextlib
import struct
from types import TracebackType
from typing import Any, Self

from ottla.client.sasl import scram_final
from ottla.wire.headers import request_frame
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest
from ottla.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from ottla.wire.schema import Api
from tests.compat.raw import Connection

NONCE = "rOprNGfwEbeRWgbNEkqO"


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def first_of_scram(user: str, header: str = "n,,") -> bytes:
    return f"{header}n={user},r={NONCE}".encode()


class Talk:
    """Every method returns the answer's fields, or "closed" if the broker ends the connection instead."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)
        self._number = 0

    def _ask(self, api: Api[Any, Any], version: int, message: Any) -> Any:
        self._number += 1
        body = api.encode_request(version, message)
        self._connection.send(request_frame(api.key, version, self._number, "talk", body))
        try:
            answer = self._connection.answer()
        except (EOFError, ConnectionError):
            return None
        assert int.from_bytes(answer[:4], "big") == self._number
        return api.decode_response(version, answer[5:] if version >= api.flexible_from else answer[4:])

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        found = self._ask(SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))
        return "closed" if found is None else (found.error_code, sorted(found.mechanisms))

    def authenticate(self, token: bytes, version: int = 1) -> Any:
        found = self._ask(SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))
        if found is None:
            return "closed"
        return found.error_code, found.error_message, found.auth_bytes, found.session_lifetime_ms

    def bare(self, token: bytes) -> Any:
        """Sends a token without a header, and returns the answer's."""
        self._connection.send(struct.pack(">i", len(token)) + token)
        try:
            return self._connection.answer()
        except (EOFError, ConnectionError):
            return "closed"

    def scram(self, mechanism: str, user: str, password: str) -> Any:
        """Goes the whole way, until "served" or a refusal."""
        self.handshake(mechanism)
        first = self.authenticate(first_of_scram(user))
        if first[0]:
            return first
        digest = "sha256" if mechanism == "SCRAM-SHA-256" else "sha512"
        bare = f"n={user},r={NONCE}"
        final, signature = scram_final(digest, password.encode(), NONCE, bare, first[2].decode(), "talk")
        last = self.authenticate(final.encode())
        return "served" if last[0] == 0 and signature else last

    def metadata(self) -> str:
        found = self._ask(METADATA, 8, MetadataRequest(topics=[]))
        return "closed" if found is None else "served"

    def end(self) -> str:
        """Waits for the end of the connection."""
        return "closed" if self._connection.is_closed() else "said more"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()
