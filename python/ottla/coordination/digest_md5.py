"""SASL's mechanism DIGEST-MD5 on a client's side, as ZooKeeper's servers have it.

The server sends a nonce; the client answers with a hash over it and its password; the server proves with another hash
that it knows the password, too. The password itself is not sent. There are no security layers here (`qop=auth`), since
ZooKeeper uses none.

Source: RFC 2831. Java's and ours hash a text that has only characters of ISO 8859-1 in that encoding, and any other in
UTF-8 (its section 2.1.2.1).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

_PAIR: Final = re.compile(rb'\s*([a-zA-Z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|\Z)', re.DOTALL)
_COUNT: Final = b"00000001"
"""How many answers had this nonce: a login is one exchange."""


@dataclass(frozen=True)
class User:
    """Somebody with a password. `place` is where that is written, for messages."""

    name: str
    password: str = field(repr=False)
    place: str


class Exchange:
    """One login: `answer` what the server sends first, then `check` what it sends last."""

    def __init__(self, user: User, uri: str, nonce: str | None = None) -> None:
        """`uri` is SERVICE/HOST. `nonce` is the client's; without it, one is drawn."""
        self._user = user
        self._uri = uri.encode()
        self._own_nonce = (nonce or secrets.token_hex(16)).encode()
        self._session = b""
        self._nonces = b""

    def answer(self, challenge: bytes) -> bytes:
        """Raises ValueError if the challenge is none of DIGEST-MD5, or asks for what is not here."""
        fields = _fields(challenge)
        nonce = fields.get("nonce")
        if not nonce or fields.get("algorithm", b"md5-sess").lower() != b"md5-sess":
            raise ValueError("what the server sent is no challenge of DIGEST-MD5")
        if b"auth" not in fields.get("qop", b"auth").replace(b" ", b"").lower().split(b","):
            raise ValueError("the server wants messages that are signed or encrypted by DIGEST-MD5")
        realm = fields.get("realm", b"")
        secret = hashlib.md5(b":".join((_bytes(self._user.name), realm, _bytes(self._user.password)))).digest()
        self._session = _hex(b":".join((secret, nonce, self._own_nonce)))
        self._nonces = b":".join((nonce, _COUNT, self._own_nonce, b"auth"))
        quoted = {
            b"username": self._user.name.encode(),
            b"realm": realm,
            b"nonce": nonce,
            b"cnonce": self._own_nonce,
            b"digest-uri": self._uri,
        }
        parts = [b"charset=utf-8", *(name + b"=" + _quoted(text) for name, text in quoted.items())]
        parts += [b"nc=" + _COUNT, b"qop=auth", b"response=" + self._hash(b"AUTHENTICATE:")]
        return b",".join(parts)

    def check(self, last: bytes) -> None:
        """Raises ValueError unless the server knows the password, too."""
        if not hmac.compare_digest(_fields(last).get("rspauth", b""), self._hash(b":")):
            raise ValueError("the server does not prove that it knows the password")

    def _hash(self, what: bytes) -> bytes:
        return _hex(b":".join((self._session, self._nonces, _hex(what + self._uri))))


def _fields(message: bytes) -> dict[str, bytes]:
    """The directives of a message, the first of each name. Raises ValueError for other text."""
    found: dict[str, bytes] = {}
    position = 0
    while position < len(message):
        match = _PAIR.match(message, position)
        if match is None:
            raise ValueError("what the server sent is no message of DIGEST-MD5")
        quoted = match[2]
        value = match[3] if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL)
        found.setdefault(match[1].decode().lower(), value)
        position = match.end()
    return found


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(value: bytes) -> bytes:
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", value) + b'"'


def _hex(data: bytes) -> bytes:
    return hashlib.md5(data).hexdigest().encode()
