"""OAUTHBEARER: the client shows a token that an authorization server has given it (RFC 7628, KIP-255).

| client                                     | broker                                          |
|--------------------------------------------|-------------------------------------------------|
| `n,,` and `auth=Bearer TOKEN`, by ^A apart | nothing: the client is who the token says; or   |
|                                            | why not, in JSON                                |
| ^A                                         | a refusal with that JSON                        |

Source: OAuthBearerSaslServer.java, OAuthBearerClientInitialResponse.java.
"""

from __future__ import annotations

import json
import re
from typing import Final

from ottla.broker.authentication.exchange import Refused
from ottla.broker.authentication.tokens import InvalidToken, Validator

NAME: Final = "OAUTHBEARER"
#: Tokens carry what an authorization server says of a user, such as groups.
TOKEN_BYTES_MAX: Final = 64 << 10
_SEPARATOR: Final = "\x01"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<user>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+)[ ]+(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)


class OAuthBearer:
    """ends_at_s: When the token that was accepted expires, in seconds since 1970."""

    def __init__(self, validator: Validator) -> None:
        self.user: str | None = None
        self.claimed: str | None = None
        self.ends_at_s: float | None = None
        self._validator = validator
        #: The answer to a token that was not accepted, until the client has taken note of it.
        self._told: str | None = None
        self._reason = ""

    def step(self, token: bytes) -> bytes:
        if self._told is not None and token == _SEPARATOR.encode():
            raise Refused(self._reason, self._told)
        self._told = None
        user, text = _parts(token)
        self.claimed = user or None
        try:
            found = self._validator.validate(text)
        except InvalidToken as invalid:
            status = {"status": invalid.status} | ({} if invalid.scope is None else {"scope": invalid.scope})
            self._told = json.dumps(status, separators=(", ", ":"))
            self._reason = str(invalid)
            return self._told.encode()
        if user not in ("", found.user):
            told = (
                f"Authentication failed: Client requested an authorization id ({user}) that is different from the "
                f"token's principal name ({found.user})"
            )
            raise Refused(told, told)
        self.user, self.ends_at_s = found.user, found.ends_at_s
        return b""


def _parts(message: bytes) -> tuple[str, str]:
    """The user for whom the client wants to act, and its token. Raises Refused."""
    first = _FIRST.fullmatch(message.decode(errors="replace"))
    if first is None:
        raise Refused("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in first["pairs"].split(_SEPARATOR) if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise Refused("Invalid OAUTHBEARER client first message: it has no 'auth=Bearer TOKEN'")
    return first["user"] or "", auth["token"]
